#include "cuda/cuda.h"

#include <dlfcn.h>

#include "support/text.h"

namespace dimred::cuda {
namespace {

namespace fs = std::filesystem;

Library load_beside_program() {
#ifdef DIMRED_WITH_CUDA
  if (::dlopen("libcuda.so.1", RTLD_LAZY) == nullptr)
    return {nullptr, "no NVIDIA driver was found (libcuda.so.1)"};
  std::error_code error;
  const auto program = fs::read_symlink("/proc/self/exe", error);
  return load(program.parent_path().parent_path() / "lib" / "libdimred_cuda.so");
#else
  return {nullptr, "this build's torch is without CUDA"};
#endif
}

const Library loaded = load_beside_program();

}  // namespace

const Library& library() { return loaded; }

Library load(const fs::path& file) {
  using Get = const Functions* (*)();
  // Global, as if the program had been linked with PyTorch's libraries; never unloaded.
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) return {nullptr, head_line(::dlerror()), true};
  const auto get = reinterpret_cast<Get>(::dlsym(handle, "dimred_cuda_functions"));
  if (get == nullptr || get()->size != sizeof(Functions))
    return {nullptr, file.string() + " is of another version", true};
  return {get(), {}};
}

}  // namespace dimred::cuda
