#include "stores/upload.h"

#include <algorithm>

#include "stores/attempts.h"
#include "stores/folder_upload.h"
#include "stores/listing.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

Transfer upload_file(Store& store,
                     const fs::path& local,
                     const Url& url,
                     const StoreOptions& options) {
  const auto size = static_cast<std::int64_t>(fs::file_size(local));
  with_attempts(options, [&] {
    store.put(local, url);
    const auto item = store.stat(url);
    if (!item || item->size != size)
      throw StoreError(concat("[stores] ",
                              shown(url),
                              " has ",
                              item ? item->size : 0,
                              " bytes after the upload of ",
                              size),
                       true);
  });
  return {.files = 1, .bytes = size};
}

}  // namespace

std::vector<std::string> files_to_send(const fs::path& folder) {
  std::vector<std::string> names;
  for (auto entry = fs::recursive_directory_iterator(folder);
       entry != fs::recursive_directory_iterator();
       ++entry) {
    const auto& path = entry->path();
    const auto ending = path.extension();
    const bool passes = ending == ".tmp" || ending == ".part" || ending == ".of" ||
                        path.filename().string().starts_with('.');
    if (passes && entry->is_directory()) entry.disable_recursion_pending();
    if (!passes && entry->is_regular_file())
      names.push_back(path.lexically_relative(folder).string());
  }
  std::ranges::sort(names);
  std::erase_if(names,
                [](const auto& name) { return name == complete_name || name == incomplete_name; });
  return names;
}

Transfer upload(Store& store,
                const fs::path& local,
                const Url& url,
                const StoreOptions& options,
                DigestMemory* memory) {
  require(fs::exists(local), "stores", "no such file or folder: ", local.string());
  if (!fs::is_directory(local)) return upload_file(store, local, url, options);
  return upload_folder(store, local, url, options, memory);
}

Transfer upload(const fs::path& local,
                const Url& url,
                const StoreOptions& options,
                DigestMemory* memory) {
  require(!url.scheme.starts_with("http"),
          "stores",
          "http and https are for reading only, received ",
          shown(url));
  require(!is_pattern(url), "stores", "cannot write to a pattern, received ", shown(url));
  require(fs::exists(local), "stores", "no such file or folder: ", local.string());
  return upload(*open_store(url, options), local, url, options, memory);
}

}  // namespace dimred::stores
