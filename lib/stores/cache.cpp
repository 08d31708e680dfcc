#include "stores/cache.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "stores/attempts.h"
#include "stores/journal.h"
#include "stores/local_files.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/file_lock.h"
#include "support/json.h"
#include "support/scope_exit.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// One copy of what lies at a URL. While a process uses it, nobody changes it: who finds other data
/// there makes the next copy.
struct Copy {
  fs::path folder;   // content, content.2, ...
  fs::path journal;  // which files are whole
  fs::path use;      // its lock: shared by those who read
};

Copy copy_of(const fs::path& entry, int number) {
  const auto end = number == 1 ? std::string() : formatted(".{}", number);
  return {entry / ("content" + end), entry / ("files" + end + ".jsonl"), entry / ("use" + end)};
}

/// Returns null while another process holds an excluding lock on the copy. Opens the file each
/// time, so that this process never gives up a used lock for another kind.
std::unique_ptr<FileLock> try_hold(const Copy& copy, LockKind kind) {
  auto lock = std::make_unique<FileLock>(copy.use);
  if (!lock->try_take(kind)) lock.reset();
  return lock;
}

/// A copy that is as the remote place is, and that nobody changes while `use` is held.
struct Held {
  int number = 1;
  std::unique_ptr<FileLock> use;
};

/// pca_mat.npy's singular values and digests are in pca_mat.json. A signed link is one file's, and
/// some servers refuse what is not there.
std::optional<Found> beside(Store& store, const Url& url, const std::vector<Found>& found) {
  const bool is_signed = url.scheme.starts_with("http") && !url.query.empty();
  if (!is_single(found) || is_signed || !last_name(url).ends_with(".npy")) return {};
  auto place = url;
  place.path.replace(place.path.size() - 4, 4, ".json");
  try {
    const auto item = ask(store, [&] { return store.stat(place); });
    if (item) return Found{*item, place, ""};
  } catch (const Refused&) {
    // Some servers refuse what is not there.
  }
  return {};
}

/// Brings what `placed` (copy -> wanted files) says into the first copy that is free, where none is
/// as it should be. The caller holds the entry's lock.
template <class Placed>
Held bring_copy(Store& store, const fs::path& entry, Placed placed, Transfer& transfer) {
  for (int number = 1; fs::exists(copy_of(entry, number).use); ++number) {
    const auto copy = copy_of(entry, number);
    const auto wanted = placed(copy);
    if (!Journal(copy.journal, copy.folder).knows_just(wanted)) continue;
    auto use = try_hold(copy, LockKind::shared);
    if (!use) continue;
    transfer.present = std::ssize(wanted);
    return {number, std::move(use)};
  }
  for (int number = 1;; ++number) {
    const auto copy = copy_of(entry, number);
    auto use = try_hold(copy, LockKind::exclusive);
    if (!use) continue;  // somebody reads it
    const auto wanted = placed(copy);
    create_folders(copy.folder);
    Journal journal(copy.journal, copy.folder);
    journal.make_room(wanted);
    transfer = bring_files(store, wanted, &journal);
    journal.settle(wanted);
    journal.make_room(wanted);  // of what was begun and then found to be there
    use->try_take(LockKind::shared);
    return {number, std::move(use)};
  }
}

constexpr auto input_fault = "input";

fs::path answer_of(const fs::path& entry) { return entry / "answer.json"; }

/// The result of the process that held the lock while we waited: its copy's number, or its error.
std::optional<int> read_answer(const fs::path& entry) {
  nlohmann::json last;
  try {
    last = parse_json(InputFile(answer_of(entry)).text(JsonLimits{}.bytes), "");
  } catch (const std::exception&) {  // there is none, or it is damaged
    return {};
  }
  if (!last.is_object()) return {};
  const auto text = last.value("text", std::string());
  if (text.empty()) return last.value("copy", 1);
  if (last.value("fault", std::string()) == input_fault) throw std::invalid_argument(text);
  throw std::runtime_error(text);
}

/// The caller holds the entry's lock; processes that wait for it get the answer.
Held bring_and_answer(const Url& url,
                      const StoreOptions& options,
                      Transfer& transfer,
                      const std::optional<std::vector<Found>>& files,
                      const fs::path& entry) {
  // One that cannot be written is said: who waits asks for itself then.
  const auto answer = [&](const nlohmann::json& answer) {
    undo_after_error([&] { write_file_atomically(answer_of(entry), json_line(answer) + '\n'); });
  };
  try {
    const auto store = open_store(url, options);
    auto found = files ? *files : find(*store, url);
    std::erase_if(found, [](const Found& one) { return is_own_cache(one.item.name); });
    const auto side = beside(*store, url, found);
    const auto placed = [&](const Copy& copy) -> std::vector<Wanted> {
      if (files && found.empty()) return {};
      const auto local = is_pattern(url) ? copy.folder : copy.folder / last_name(url);
      auto wanted = placed_at(url, found, local);
      if (side) wanted.push_back({*side, fs::path(local).replace_extension(".json")});
      return wanted;
    };
    auto held = bring_copy(*store, entry, placed, transfer);
    answer({{"url", shown(url)}, {"copy", held.number}});
    return held;
  } catch (const std::invalid_argument& error) {
    answer({{"text", error.what()}, {"fault", input_fault}});
    throw;
  } catch (const std::exception& error) {
    answer({{"text", error.what()}});
    throw;
  }
}

/// bring(), kept under `kind`; `files`: of them, instead of what find() finds.
Brought bring_kind(const Url& url,
                   const StoreOptions& options,
                   const char* kind,
                   const std::optional<std::vector<Found>>& files) {
  // What this process has got; it is read lazily, so it is held until the process ends.
  static std::map<fs::path, Held> got;
  const auto entry = cache_paths_of(url, kind, options).entry;
  const auto brought = [&](const Transfer& transfer) -> Brought {
    return {copy_of(entry, got.at(entry).number).folder / last_name(url), transfer};
  };
  if (got.contains(entry)) return brought({});
  create_folders(entry);
  const auto earlier = stamp_of(answer_of(entry));
  FileLock lock(entry / "lock");
  const bool waits = !lock.try_take(LockKind::exclusive);
  if (waits) lock.take(LockKind::exclusive);
  const bool answered = waits && stamp_of(answer_of(entry)) != earlier;
  if (const auto number = answered ? read_answer(entry) : std::nullopt) {
    got[entry] = {*number, try_hold(copy_of(entry, *number), LockKind::shared)};
    if (got[entry].use) return brought({});
    got.erase(entry);
  }
  Transfer transfer;
  got[entry] = bring_and_answer(url, options, transfer, files, entry);
  return brought(transfer);
}

std::vector<Found> look(const Url& url, const StoreOptions& options) {
  const auto store = open_store(url, options);
  auto found = is_pattern(url) ? find_in_folder(*store, parent(url)) : find(*store, url);
  std::erase_if(found, [](const Found& one) { return is_own_cache(one.item.name); });
  return found;
}

/// Takes what `pick` chooses out of `found`, in its order.
std::vector<Found> taken(std::vector<Found>& found, const Url& url, const PickStreamed& pick) {
  const bool pattern = is_pattern(url);
  std::vector<std::string> names;
  std::map<std::string, Found> by_name;
  for (auto& one : found) {
    const auto& name = one.item.name;
    if (!pattern || matches_pattern(url, name)) names.push_back(name);
    by_name.emplace(name, std::move(one));
  }
  std::vector<Found> chosen;
  for (const auto& name : pick(std::move(names), pattern)) {
    auto node = by_name.extract(name);
    check(!node.empty(), "a name that was not among those found");
    chosen.push_back(std::move(node.mapped()));
  }
  found.clear();
  for (auto& [name, one] : by_name) found.push_back(std::move(one));
  return chosen;
}

}  // namespace

CachePaths cache_paths_of(const Url& url, const std::string& kind, const StoreOptions& options) {
  const auto entry = cache_folder(options) / kind / digest(identity(url)).substr(0, 16);
  return {entry, entry / "content" / last_name(url)};
}

Brought bring(const Url& url, const StoreOptions& options) {
  const auto name = last_name(url);
  require(!name.ends_with(".index.json") && name != ".metadata",
          "[stores] needs the URL of the folder, because {} only names the files with the weights",
          url);
  return bring_kind(url, options, "inputs", std::nullopt);
}

StreamedFolder open_stream(const Url& url,
                           const PickStreamed& pick,
                           const Rest& rest,
                           const StoreOptions& options) {
  constexpr auto kind = "streams";
  auto found = look(url, options);
  const bool pattern = is_pattern(url);
  require(!is_single(found),
          "[stores] needs a folder or a pattern of files to stream, received {}",
          url);
  StreamedFolder place{taken(found, url, pick), cache_paths_of(url, kind, options).entry, {}};
  require(!place.shards.empty(), "[stores] found no file to stream at {}", url);
  for (const auto& shard : place.shards)
    require(!shard.item.etag.empty(),
            "[stores] cannot stream {}: the store gives neither an etag nor a time, so dimred "
            "would not notice a change of this file (HDFS gives no time for files of the current "
            "minute; wait one minute)",
            shard.url);
  if (!rest.wanted) {
    place.rest.path = place.entry / "none" / last_name(url);
    return place;
  }
  if (pattern)
    std::erase_if(found, [&](const Found& one) {
      return std::ranges::find(rest.beside, one.item.name) == rest.beside.end();
    });
  // Also where there is none any more: what an earlier start has brought goes.
  place.rest = bring_kind(url, options, kind, found);
  create_folders(pattern ? place.rest.path.parent_path() : place.rest.path);
  return place;
}

Brought bring_chosen(const Url& url, const PickStreamed& pick, const StoreOptions& options) {
  if (is_pattern(url)) return bring(url, options);
  auto found = look(url, options);
  if (found.empty() || is_single(found)) return bring(url, options);
  const auto chosen = taken(found, url, pick);
  require(!chosen.empty(), "[stores] found no file to read at {}", url);
  return bring_kind(url, options, "chosen", chosen);
}

}  // namespace dimred::stores
