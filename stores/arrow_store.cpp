#include <dlfcn.h>

#include <mutex>

#include "stores/store.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

void* library = nullptr;  // never unloaded: the SDK inside has threads

}  // namespace

std::unique_ptr<Store> make_arrow_store(const Url& url, const StoreOptions& options) {
  using Make = Store* (*)(const Url&, const StoreOptions&);
  // It lies in lib/ beside the programs' bin/.
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
                    "lib" / "libdimred_arrow.so";
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (library == nullptr) library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw StoreError(
        formatted("[stores] cannot use {}: needs the library made with the Python package pyarrow, "
                  "but {}",
                  shown(url),
                  std::filesystem::exists(file) ? dlerror() : file.string() + " is not there"),
        /*passing=*/false);
  }
  const auto make = reinterpret_cast<Make>(dlsym(library, "dimred_arrow_store"));
  check(make != nullptr, "libdimred_arrow.so is of another version");
  return std::unique_ptr<Store>(make(url, options));
}

void close_libraries() {
  if (library == nullptr) return;
  if (auto* const finish = reinterpret_cast<void (*)()>(dlsym(library, "dimred_arrow_finish")))
    finish();
}

}  // namespace dimred::stores
