/*
 * Copyright (c) Meta Platforms, Inc. and affiliates.
 * All rights reserved.
 *
 * This source code is licensed under the BSD-style license found in the
 * LICENSE file in the root directory of this source tree.
 */

// Looks constants up by name as an app and as a delegate would.
//
//   named_data_probe program.pte NAME...           from the program
//   named_data_probe program.pte --ptd data.ptd NAME...  from the data file
//   named_data_probe program.pte --init METHOD     loads a method; the delegate
//       NamedDataProbe looks up the names in its blob, one a line
//
// Prints for each name a line: name, size in bytes, content in hexadecimal digits. A name
// that is not there gives "error" and its code in place of the last two.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include <executorch/extension/data_loader/file_data_loader.h>
#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/extension/module/module.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

using executorch::extension::FileDataLoader;
using executorch::extension::FlatTensorDataMap;
using executorch::extension::Module;
using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::NamedDataMap;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;

namespace {

void print(const NamedDataMap& map, const std::string& name) {
  Result<FreeableBuffer> buffer = map.get_data(name);
  if (!buffer.ok()) {
    std::printf("%s error %d\n", name.c_str(), static_cast<int>(buffer.error()));
    return;
  }
  const auto* data = static_cast<const uint8_t*>(buffer->data());
  std::printf("%s %zu ", name.c_str(), buffer->size());
  for (size_t i = 0; i < buffer->size(); ++i) {
    std::printf("%02x", data[i]);
  }
  std::printf("\n");
}

class NamedDataProbe final : public BackendInterface {
 public:
  bool is_available() const override {
    return true;
  }

  Result<DelegateHandle*> init(
      BackendInitContext& context,
      FreeableBuffer* processed,
      ArrayRef<CompileSpec>) const override {
    std::string names(
        static_cast<const char*>(processed->data()), processed->size());
    for (size_t start = 0; start < names.size();) {
      const size_t end = names.find('\n', start);
      print(*context.get_named_data_map(), names.substr(start, end - start));
      start = end == std::string::npos ? names.size() : end + 1;
    }
    return nullptr;
  }

  Error execute(BackendExecutionContext&, DelegateHandle*, Span<EValue*>)
      const override {
    return Error::NotSupported;
  }
};

int fail(const char* what, Error error) {
  std::fprintf(stderr, "%s: error %d\n", what, static_cast<int>(error));
  return 1;
}

} // namespace

int main(int argc, char** argv) {
  executorch::runtime::runtime_init();
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s program.pte NAME...\n", argv[0]);
    return 2;
  }

  if (std::strcmp(argv[2], "--init") == 0) {
    static NamedDataProbe probe;
    const Error registered =
        executorch::runtime::register_backend(Backend{"NamedDataProbe", &probe});
    if (registered != Error::Ok) {
      return fail("register_backend", registered);
    }
    Module module(argv[1]);
    const Error loaded = module.load_method(argv[3]);
    return loaded == Error::Ok ? 0 : fail("load_method", loaded);
  }

  const bool external = std::strcmp(argv[2], "--ptd") == 0;
  Result<FileDataLoader> loader = FileDataLoader::from(argv[external ? 3 : 1]);
  if (!loader.ok()) {
    return fail("open", loader.error());
  }
  if (external) {
    Result<FlatTensorDataMap> map = FlatTensorDataMap::load(&loader.get());
    if (!map.ok()) {
      return fail("load .ptd", map.error());
    }
    for (int i = 4; i < argc; ++i) {
      print(map.get(), argv[i]);
    }
    return 0;
  }
  Result<Program> program = Program::load(&loader.get());
  if (!program.ok()) {
    return fail("load .pte", program.error());
  }
  Result<const NamedDataMap*> map = program->get_named_data_map();
  if (!map.ok()) {
    return fail("get_named_data_map", map.error());
  }
  for (int i = 2; i < argc; ++i) {
    print(*map.get(), argv[i]);
  }
  return 0;
}
