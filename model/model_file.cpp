#include "model/model_file.h"

#include <sys/stat.h>

#include <utility>

#include "model/gguf_model.h"
#include "model/hf_directory.h"
#include "model/model_contents.h"

namespace lynx::model {
namespace {

class OpenModelFile final : public ModelFile {
 public:
  explicit OpenModelFile(ModelContents contents) : contents_(std::move(contents)) {}

  const ModelConfig& config() const override { return contents_.config; }
  matmul::WeightSource embedding() const override { return contents_.tensors.embedding; }
  matmul::WeightSource final_norm() const override { return contents_.tensors.final_norm; }
  matmul::WeightSource head() const override { return contents_.tensors.head; }
  LayerTensors layer(int index) const override { return contents_.tensors.layers[static_cast<std::size_t>(index)]; }
  const text::TokenizerSpec& tokenizer() const override { return contents_.tokenizer; }
  std::optional<std::string> chat_template() const override { return contents_.chat_template; }
  void drop_pages() override {
    for (MappedFile& file : contents_.files) file.drop_pages();
  }

 private:
  ModelContents contents_;
};

}  // namespace

Result<std::unique_ptr<ModelFile>> ModelFile::open(const std::string& path) {
  struct stat info {};
  const bool is_directory = stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  LYNX_TRY(ModelContents contents, is_directory ? open_hf_directory(path) : open_gguf(path));
  return std::unique_ptr<ModelFile>(std::make_unique<OpenModelFile>(std::move(contents)));
}

}  // namespace lynx::model
