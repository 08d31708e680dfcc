#include "stores/store.h"

#include <dlfcn.h>

#include <atomic>

namespace dimred::stores {
namespace {

std::atomic<void*> arrow = nullptr;  // never unloaded: the SDK inside has threads

/// A store of the library that arrow_plugin.cpp makes, which lies in lib/ beside the programs'
/// bin/.
std::unique_ptr<Store> make_arrow_store(const Url& url, const StoreOptions& options) {
  using Make = Store* (*)(const Url&, const StoreOptions&);
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() /
                    "lib" / "libdimred_arrow.so";
  arrow = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (arrow == nullptr) {
    const auto why = exists(file) ? dlerror() : file.string() + " does not exist";
    throw StoreError(
        "cannot use {}: this store needs the library that is built with the Python package "
        "pyarrow, but {}",
        url,
        why);
  }
  const auto make = reinterpret_cast<Make>(dlsym(arrow, "dimred_arrow_store"));
  check(make != nullptr, "libdimred_arrow.so is of another version");
  return std::unique_ptr<Store>(make(url, options));
}

}  // namespace

std::unique_ptr<Store> open_store(const Url& url, const StoreOptions& options) {
  if (url.scheme == "file") return make_file_store(options);
  if (url.scheme == "hdfs") return make_hadoop_store(options);
  if (url.scheme == "s3" || url.scheme == "gs" || url.scheme == "oss")
    return make_arrow_store(url, options);
  check(url.scheme == "http" || url.scheme == "https", "a scheme without a store");
  return make_http_store(options);
}

void close_libraries() {
  if (arrow == nullptr) return;
  if (auto* const finish = reinterpret_cast<void (*)()>(dlsym(arrow, "dimred_arrow_finish")))
    finish();
}

}  // namespace dimred::stores
