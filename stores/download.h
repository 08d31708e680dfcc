#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "stores/store.h"

namespace dimred::stores {

/// What a file was when it was downloaded, so that it need not be again.
struct Seen {
  std::int64_t size = 0;
  std::string etag;   // of the store, or the listing's digest
  std::string stamp;  // of the local file: length and time
};
using Records = std::map<std::string, Seen>;  // by name below the folder; "" for a single file

struct Transfer {
  std::int64_t files = 0;    // transferred
  std::int64_t bytes = 0;    // of them, that crossed the wire in this call
  std::int64_t present = 0;  // files that were there already
};

/// The file or folder at `url` as `local`. A file appears under its name when it is whole and,
/// where the folder has a _COMPLETE listing, has the listed digest; until then it is NAME.part,
/// which a later call continues when size and etag are still the same. A name with * ? [ in its
/// last part is a pattern over the files of its folder; `local` is then a folder. With `records`,
/// files that they know are left alone and files that are no longer there are removed. Throws
/// StoreError; std::invalid_argument when there is nothing at `url`; std::runtime_error for the
/// local disk.
Transfer download(const Url& url,
                  const std::filesystem::path& local,
                  const StoreOptions& options,
                  Records* records = nullptr);

/// The same through a store that is open already.
Transfer download(Store& store,
                  const Url& url,
                  const std::filesystem::path& local,
                  const StoreOptions& options,
                  Records* records = nullptr);

/// Whether the URL's last part is a pattern.
bool is_pattern(const Url& url);

/// What lies there: files below a folder, or the one file with an empty name; empty for nothing.
/// Listed files carry the digest as etag.
struct Found {
  Item item;           // the name is the file's
  Url url;             // of the object
  std::string digest;  // of the listing; else empty
};
std::vector<Found> find(Store& store, const Url& url, const StoreOptions& options);

}  // namespace dimred::stores
