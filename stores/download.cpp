#include "stores/download.h"

#include <sys/stat.h>

#include "stores/listing.h"
#include "stores/part_file.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// Changes when a file does; empty when there is none.
std::string stamp_of(const fs::path& file) {
  struct stat state {};
  if (::stat(file.c_str(), &state) != 0 || !S_ISREG(state.st_mode)) return {};
  return concat(state.st_size, ' ', state.st_mtim.tv_sec, '.', state.st_mtim.tv_nsec);
}

bool is_known(const Records& records, const Item& item, const fs::path& file) {
  const auto at = records.find(item.name);
  return at != records.end() && at->second.size == item.size && !item.etag.empty() &&
         at->second.etag == item.etag && at->second.stamp == stamp_of(file);
}

/// What was brought from there and is there no more; what others put beside it stays.
void remove_others(const fs::path& folder, const Records& before, const Records& now) {
  for (const auto& [name, seen] : before) {
    if (!name.empty() && is_inside(name) && !now.contains(name)) fs::remove(folder / name);
  }
}

}  // namespace

Transfer download(const Url& url,
                  const fs::path& local,
                  const StoreOptions& options,
                  Records* records) {
  return download(*open_store(url, options), url, local, options, records);
}

Transfer download(Store& store,
                  const Url& url,
                  const fs::path& local,
                  const StoreOptions& options,
                  Records* records) {
  const auto found = find(store, url, options);
  require(!found.empty(), "stores", "nothing at ", shown(url));
  const bool single = found.size() == 1 && found.front().item.name.empty();
  require(!single || !fs::is_directory(local),
          "stores",
          shown(url),
          " is a file, but there is a folder ",
          local.string());
  require(single || !fs::is_regular_file(local),
          "stores",
          shown(url),
          " is a folder, but there is a file ",
          local.string());
  Transfer transfer;
  Records now;
  const auto note = [&](const Found& one, const fs::path& file) {
    now[one.item.name] = {one.item.size, one.item.etag, stamp_of(file)};
    if (records != nullptr) (*records)[one.item.name] = now[one.item.name];
  };
  std::vector<std::pair<Found, fs::path>> together;
  for (const auto& one : found) {
    const auto file = single ? local : local / one.item.name;
    if (records != nullptr && is_known(*records, one.item, file)) {
      ++transfer.present;
      note(one, file);
      continue;
    }
    ++transfer.files;
    if (!store.seeks()) {
      together.emplace_back(one, file);
      continue;
    }
    transfer.bytes += fetch(store, one, file, options);
    note(one, file);
  }
  transfer.bytes += fetch_together(store, together, options);
  for (const auto& [one, file] : together) note(one, file);
  if (records != nullptr) {
    if (!single) remove_others(local, *records, now);
    *records = std::move(now);
  }
  return transfer;
}

}  // namespace dimred::stores
