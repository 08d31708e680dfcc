#include "stores/upload.h"

#include <algorithm>
#include <array>
#include <set>

#include "stores/attempts.h"
#include "stores/folder_upload.h"
#include "stores/listing.h"
#include "stores/walk.h"
#include "support/errors.h"
#include "support/locations.h"

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
      throw StoreError(formatted("[stores] {} has {} bytes after the upload of {}",
                                 shown(url),
                                 item ? item->size : 0,
                                 size),
                       true);
  });
  return {.files = 1, .bytes = size};
}

/// The listings' own names, and what their upload leaves when it is killed.
bool is_listing(const std::string& name) {
  return std::ranges::any_of(std::array{complete_name, incomplete_name}, [&](const char* listing) {
    return name == listing || name == second_name(listing) || name == formatted("{}.tmp", listing);
  });
}

/// A name that a run folder holds for a moment only, or for itself.
bool passes(const fs::path& name) {
  return std::ranges::any_of(name, [](const fs::path& part) {
    const auto ending = part.extension();
    return ending == ".tmp" || ending == ".part" || ending == ".of" ||
           part.string().starts_with('.');
  });
}

/// Each upload would send what the one before it has left.
void require_outside(const fs::path& local, const Url& url) {
  if (url.scheme != "file" || !fs::is_directory(local)) return;
  const auto below =
      fs::weakly_canonical(decoded_path(url)).lexically_relative(fs::canonical(local));
  require(*below.begin() == "..",
          "[stores] a folder is not sent into itself, received {} and {}",
          local.string(),
          shown(url));
}

}  // namespace

Selection files_to_send(const fs::path& folder, Sending sending) {
  auto walked = walk(folder);
  Selection selection{.left_out = std::ssize(walked.others)};
  const std::set<std::string> all(walked.files.begin(), walked.files.end());
  for (auto& name : walked.files) {
    if (is_listing(name) || is_own_cache(name)) continue;
    if (sending == Sending::run && passes(name)) continue;
    if (name.ends_with(".part.of") || (name.ends_with(".part") && all.contains(name + ".of"))) {
      ++selection.left_out;
    } else {
      selection.names.push_back(std::move(name));
    }
  }
  return selection;
}

void require_writable(const Url& url) {
  require(!url.scheme.starts_with("http"),
          "[stores] http and https are for reading only, received {}",
          shown(url));
  require(!is_pattern(url), "[stores] an output has no pattern, received {}", shown(url));
}

Transfer upload(Store& store,
                const fs::path& local,
                const Url& url,
                const StoreOptions& options,
                Sending sending,
                DigestMemory* memory) {
  require(fs::exists(local),
          "[stores] no such file or folder: {}",
          without_credentials(local.string()));
  if (!fs::is_directory(local)) return upload_file(store, local, url, options);
  return upload_folder(store, local, url, options, files_to_send(local, sending), memory);
}

Transfer upload(const fs::path& local,
                const Url& url,
                const StoreOptions& options,
                Sending sending,
                DigestMemory* memory) {
  require_writable(url);
  require(fs::exists(local),
          "[stores] no such file or folder: {}",
          without_credentials(local.string()));
  require_outside(local, url);
  return upload(*open_store(url, options), local, url, options, sending, memory);
}

}  // namespace dimred::stores
