#!/usr/bin/env bash
# Fetches, for tests only, what the source distribution of llama-cpp-python carries of other models: vocabularies (GGUF files without
# weights, with texts and their ids by Hugging Face tokenizers) into .cache/vocabs/, chat templates into .cache/templates/. Checks its
# SHA-256; builds and installs nothing. Idempotent.
#
#   scripts/fetch_test_vocabs.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

version=0.3.36
sdist_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
models="llama_cpp_python-$version/vendor/llama.cpp/models"
vocabularies=(gpt-2 llama-bpe qwen2)

complete() {
  local name
  [ "$(cat .cache/vocabs/sdist.sha256 2>/dev/null)" = "$sdist_sha256" ] || return 1
  for name in "${vocabularies[@]}"; do
    [ -s ".cache/vocabs/ggml-vocab-$name.gguf" ] && [ -s ".cache/vocabs/ggml-vocab-$name.gguf.inp" ] &&
      [ -s ".cache/vocabs/ggml-vocab-$name.gguf.out" ] || return 1
  done
  [ -s .cache/templates/Qwen-Qwen2.5-7B-Instruct.jinja ]
}

complete && exit 0
step "fetching vocabularies and chat templates for the tests (77 MB) into .cache/"
mkdir -p .cache
scratch="$(mktemp -d .cache/fetch.XXXXXX)"
trap 'rm -rf "$scratch"' EXIT
python3 -m pip download --quiet --progress-bar off --disable-pip-version-check --no-deps --no-cache-dir --no-binary llama-cpp-python \
  --dest "$scratch" "llama-cpp-python==$version" || die "pip download failed: is a Python package index reachable?"
sdist="$scratch/llama_cpp_python-$version.tar.gz"
[ -f "$sdist" ] || die "pip left no $(basename "$sdist")"
echo "$sdist_sha256  $sdist" | sha256sum --check --quiet || die "$(basename "$sdist") has the wrong SHA-256; not used"
tar -xzf "$sdist" -C "$scratch" --strip-components=4 --wildcards "$models/ggml-vocab-*" "$models/templates/*.jinja"
rm -rf .cache/vocabs .cache/templates
mkdir .cache/vocabs
for name in "${vocabularies[@]}"; do mv "$scratch/ggml-vocab-$name.gguf"* .cache/vocabs/; done
mv "$scratch/templates" .cache/templates
echo "$sdist_sha256" >.cache/vocabs/sdist.sha256
