// lynx: tools around models, without a server.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <iterator>
#include <string>

#include "server/config.h"
#include "server/plane_tools.h"
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

/// What `planes` and `calibrate` share.
void add_plane_options(CLI::App* command, lynx::server::PlaneToolOptions* options) {
  command->add_option("model", options->model, "a .gguf file or a Hugging Face directory")->required();
  command->add_option("texts", options->texts, "files, each a prompt as the model gets it")->required();
  command->add_option("--continuation", options->continuation, "tokens to generate behind each prompt")
      ->capture_default_str()
      ->check(CLI::Range(lynx::server::kLeastContinuation, lynx::server::kMostContinuation));
  command->add_option("--isa", options->isa, "instruction set: auto, portable, avx2, avx512bf16 or amxbf16");
  command->add_option("--threads", options->threads, "threads that compute; 0 means one a core")->check(CLI::Range(0, 1024));
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
  auto* planes = app.add_subcommand("planes", "Measures a model's KV planes on texts: bits a value, predictions, accepted drafts");
  auto* calibrate =
      app.add_subcommand("calibrate", "Finds the layers whose K needs wide Anchors, and writes the model's plane profile");
  PlaneToolOptions plane_options;
  CalibrationOptions calibration;
  std::string profile;
  for (CLI::App* command : {planes, calibrate}) add_plane_options(command, &plane_options);
  planes->add_option("--profile", profile, "a plane profile (default: MODEL.profile.json, or the one shipped for the model)");
  calibrate->add_option("--output", calibration.output, "where to write the profile (default: MODEL.profile.json)");
  calibrate->add_option("--most-bits", calibration.most_bits, "bits a value that the Anchors may take, everything counted")
      ->capture_default_str();
  for (CLI::App* command : {inspect, tokenize, render}) {
    command->add_option("model", model, "a .gguf file or a Hugging Face directory")->required();
  }
  tokenize->add_option("text", text, "the text; read from stdin when absent");
  render->add_option("messages", text, "the messages; read from stdin when absent");
  try {
    app.parse(argc, argv);
    if (planes->parsed()) return finish(measure_planes(plane_options, profile));
    if (calibrate->parsed()) return finish(calibrate_planes(plane_options, calibration));
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
