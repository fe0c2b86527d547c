// lynx: tools around models, without a server.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "server/config.h"
#include "server/tools.h"

namespace {

std::string read_stdin() {
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

int finish(const lynx::Result<std::string>& output) {
  if (output.ok()) {
    std::fwrite(output.value().data(), 1, output.value().size(), stdout);
    return lynx::server::kExitClean;
  }
  std::fprintf(stderr, "lynx: %s\n", output.status().message().c_str());
  return output.status().code() == lynx::Code::kInvalidArgument ? lynx::server::kExitUsage : lynx::server::kExitModel;
}

int run(int argc, char** argv) {
  using namespace lynx::server;
  CLI::App app("Tools for Lynx models", "lynx");
  app.set_version_flag("--version", std::string("lynx ") + LYNX_VERSION);
  app.require_subcommand(1);
  std::string model;
  std::string text;
  auto* inspect = app.add_subcommand("inspect", "Shows a model's shape, tensor types and memory");
  auto* tokenize = app.add_subcommand("tokenize", "Prints the tokens of a text, one a line");
  auto* render = app.add_subcommand("chat-template", "Renders the model's chat template over a JSON array of messages");
  for (CLI::App* command : {inspect, tokenize, render}) {
    command->add_option("model", model, "a .gguf file or a Hugging Face directory")->required();
  }
  tokenize->add_option("text", text, "the text; read from stdin when absent");
  render->add_option("messages", text, "the messages; read from stdin when absent");
  try {
    app.parse(argc, argv);
    if (inspect->parsed()) return finish(inspect_model(model));
    if (text.empty()) text = read_stdin();
    return finish(tokenize->parsed() ? tokenize_text(model, text) : render_messages(model, text));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitClean : kExitUsage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lynx: %s\n", error.what());
    return lynx::server::kExitRuntime;
  }
}
