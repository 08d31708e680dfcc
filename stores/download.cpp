#include "stores/download.h"

#include "stores/journal.h"
#include "stores/part_file.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/locations.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

bool is_single(const std::vector<Found>& found) {
  return found.size() == 1 && found.front().item.name.empty();
}

}  // namespace

std::vector<Wanted> placed_at(const Url& url,
                              const std::vector<Found>& found,
                              const fs::path& local) {
  require(!found.empty(), "[stores] nothing at {}", shown(url));
  const bool single = is_single(found);
  std::vector<Wanted> wanted;
  wanted.reserve(found.size());
  for (const auto& one : found) wanted.push_back({one, single ? local : local / one.item.name});
  return wanted;
}

std::vector<Wanted> as_local(const Url& url,
                             const std::vector<Found>& found,
                             const fs::path& local) {
  auto wanted = placed_at(url, found, local);
  const bool single = is_single(found);
  require(!single || !fs::is_directory(local),
          "[stores] {} is a file, but there is a folder {}",
          shown(url),
          local.string());
  require(single || !fs::is_regular_file(local),
          "[stores] {} is a folder, but there is a file {}",
          shown(url),
          local.string());
  return wanted;
}

Transfer bring_files(Store& store,
                     const std::vector<Wanted>& wanted,
                     const StoreOptions& options,
                     Journal* journal) {
  const auto note = [&](const Wanted& one) {
    if (journal != nullptr) journal->note(one);
  };
  Transfer transfer;
  std::vector<Wanted> together;
  for (const auto& one : wanted) {
    if (journal != nullptr && journal->knows(one)) {
      ++transfer.present;
      continue;
    }
    ++transfer.files;
    if (!store.seeks()) {
      together.push_back(one);
      continue;
    }
    transfer.bytes += fetch(store, one.found, one.to, options);
    note(one);
  }
  transfer.bytes += fetch_together(store, together, options, note);
  return transfer;
}

Transfer download(const Url& url, const fs::path& local, const StoreOptions& options) {
  return download(*open_store(url, options), url, local, options);
}

Transfer download(Store& store,
                  const Url& url,
                  const fs::path& local,
                  const StoreOptions& options) {
  return download(store, url, find(store, url, options), local, options);
}

Transfer download(Store& store,
                  const Url& url,
                  const std::vector<Found>& found,
                  const fs::path& local,
                  const StoreOptions& options) {
  const auto wanted = as_local(url, found, local);
  if (is_single(found)) return bring_files(store, wanted, options, nullptr);
  for (const auto& one : wanted) create_folders_inside(local, one.to.parent_path());
  Journal journal(local / ".part.of", local, without_credentials(whole(url)));
  const auto done = bring_files(store, wanted, options, &journal);
  journal.remove();
  return done;
}

}  // namespace dimred::stores
