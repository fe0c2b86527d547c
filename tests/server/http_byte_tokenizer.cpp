#include "tests/server/http_byte_tokenizer.h"

#include <string>
#include <utility>

#include "tests/catch.h"
#include "text/byte_alphabet.h"

namespace lynx::server::testing {

text::Tokenizer byte_tokenizer(bool add_bos) {
  text::TokenizerSpec spec;
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(
        {text::spelling_of_bytes(std::string(1, static_cast<char>(byte))), text::TokenizerSpec::TokenKind::kNormal});
  }
  spec.tokens.push_back({"<|turn|>", text::TokenizerSpec::TokenKind::kControl});
  spec.tokens.push_back({"<|end|>", text::TokenizerSpec::TokenKind::kControl});
  spec.bos = kTurnToken;
  spec.eos = kEndToken;
  spec.add_bos = add_bos;
  auto tokenizer = text::Tokenizer::create(spec);
  REQUIRE(tokenizer.ok());
  return std::move(tokenizer).value();
}

text::ChatTemplate simple_chat_template() {
  auto parsed = text::ChatTemplate::parse(
      "{% for message in messages %}{% if message.content == 'raise' %}{{ raise_exception('no such content') }}{% endif %}"
      "{{ bos_token }}{{ message.role }}:{{ message.content }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}{{ bos_token }}assistant:{% endif %}{% if shout %}!{% endif %}");
  REQUIRE(parsed.ok());
  return std::move(parsed).value();
}

}  // namespace lynx::server::testing
