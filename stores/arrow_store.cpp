#include <dlfcn.h>

#include "stores/store.h"
#include "support/errors.h"

namespace dimred::stores {

std::unique_ptr<Store> make_arrow_store(const Url& url, const StoreOptions& options) {
  using Make = Store* (*)(const Url&, const StoreOptions&);
  // It lies in lib/ beside the programs' bin/. Never closed: the SDK inside has threads.
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
                    "lib" / "libdimred_arrow.so";
  static void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw StoreError(
        concat("[stores] cannot use ",
               shown(url),
               ": needs the library made with the Python package pyarrow, but ",
               std::filesystem::exists(file) ? dlerror() : file.string() + " is not there"),
        /*passing=*/false);
  }
  const auto make = reinterpret_cast<Make>(dlsym(library, "dimred_arrow_store"));
  check(make != nullptr, "libdimred_arrow.so is of another version");
  return std::unique_ptr<Store>(make(url, options));
}

}  // namespace dimred::stores
