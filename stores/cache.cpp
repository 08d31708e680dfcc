#include "stores/cache.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "stores/attempts.h"
#include "stores/journal.h"
#include "stores/walk.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_lock.h"
#include "support/json.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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

/// Null while another process has the copy in a way that excludes this. It is opened anew each
/// time, so that a lock of this process that is in use is never given up for another kind.
std::unique_ptr<FileLock> try_hold(const Copy& copy, LockKind kind) {
  auto lock = std::make_unique<FileLock>(copy.use);
  if (!lock->try_take(kind)) lock.reset();
  return lock;
}

/// What this process has got; it is read lazily, so it is held until the process ends.
struct Got {
  fs::path path;
  std::unique_ptr<FileLock> use;
};
std::map<fs::path, Got>& got_of_entry() {
  static std::map<fs::path, Got> got;
  return got;
}

/// pca_mat.npy's singular values and digests are in pca_mat.json. A signed link is one file's, and
/// some servers refuse what is not there.
std::optional<Found> beside(Store& store,
                            const Url& url,
                            const std::vector<Found>& found,
                            const StoreOptions& options) {
  const bool single = found.size() == 1 && found.front().item.name.empty();
  const bool is_signed = url.scheme.starts_with("http") && !url.query.empty();
  if (!single || is_signed || !last_name(url).ends_with(".npy")) return {};
  auto place = url;
  place.path.replace(place.path.size() - 4, 4, ".json");
  std::optional<Item> item;
  try {
    with_attempts(options, [&] { item = store.stat(place); });
  } catch (const Refused&) {
    return {};
  }
  if (!item) return {};
  return Found{*item, place, ""};
}

struct Remote {
  Store& store;
  const Url& url;
  const StoreOptions& options;
  std::vector<Found> found;
  std::optional<Found> side;
  bool may_be_empty = false;

  std::vector<Wanted> in(const Copy& copy) const {
    const auto local = is_pattern(url) ? copy.folder : copy.folder / last_name(url);
    if (found.empty() && may_be_empty) return {};
    auto wanted = placed_at(url, found, local);
    if (side) wanted.push_back({*side, fs::path(local).replace_extension(".json")});
    return wanted;
  }
};

/// A copy that is as the remote place is, and that nobody changes while `use` is held.
struct Held {
  int number = 1;
  std::unique_ptr<FileLock> use;
};

/// Whoever calls this has the entry's lock.
Held bring_copy(const Remote& remote, const fs::path& entry, Transfer& transfer) {
  int copies = 0;
  while (fs::exists(copy_of(entry, copies + 1).use)) ++copies;
  for (int number = 1; number <= copies; ++number) {
    const auto copy = copy_of(entry, number);
    const auto wanted = remote.in(copy);
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
    const auto wanted = remote.in(copy);
    create_folders(copy.folder);
    Journal journal(copy.journal, copy.folder);
    journal.make_room(wanted);
    transfer = bring_files(remote.store, wanted, remote.options, &journal);
    journal.settle(wanted);
    journal.make_room(wanted);  // of what was begun and then found to be there
    use->try_take(LockKind::shared);
    return {number, std::move(use)};
  }
}

constexpr auto input_fault = "input";

/// Null when there is none, or it is damaged.
nlohmann::json read_answer(const fs::path& file) {
  try {
    return parse_json(InputFile(file).text(JsonLimits{}.bytes), file.string());
  } catch (const std::exception&) {
    return nullptr;
  }
}

/// What whoever had the lock while we waited has come to: his copy's number, or his error.
std::optional<int> answer_since(double began, const fs::path& file) {
  const auto last = read_answer(file);
  if (!last.is_object() || last.value("time", 0.) <= began) return {};
  const auto text = last.value("text", std::string());
  if (text.empty()) return last.value("copy", 1);
  if (last.value("fault", std::string()) == input_fault) throw std::invalid_argument(text);
  throw StoreError(text, false);
}

void write_answer(const fs::path& file, nlohmann::json answer) {
  answer["time"] = now();
  write_file_atomically(
      file, answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n');
}

}  // namespace

CachePlace place_of(const Url& url, const std::string& kind, const StoreOptions& options) {
  const auto name = identity(url);
  const auto entry =
      cache_folder(options) / kind / digest(std::as_bytes(std::span(name))).substr(0, 16);
  return {entry, entry / "content" / last_name(url)};
}

fs::path bring(const Url& url, const StoreOptions& options, Transfer* transfer, const Part& part) {
  const auto entry = place_of(url, part.kind, options).entry;
  if (const auto got = got_of_entry().find(entry); got != got_of_entry().end())
    return got->second.path;
  const auto keep = [&](Held held) {
    auto path = copy_of(entry, held.number).folder / last_name(url);
    got_of_entry()[entry] = {path, std::move(held.use)};
    return path;
  };
  create_folders(entry);
  const auto file = entry / "answer.json";
  const auto began = now();
  FileLock lock(entry / "lock");
  lock.take(LockKind::exclusive);
  if (const auto number = answer_since(began, file)) {
    if (auto use = try_hold(copy_of(entry, *number), LockKind::shared))
      return keep({*number, std::move(use)});
  }
  try {
    const auto store = open_store(url, options);
    auto found = part.files ? *part.files : find(*store, url, options);
    std::erase_if(found, [](const Found& one) { return is_own_cache(one.item.name); });
    auto side = beside(*store, url, found, options);
    const Remote remote{
        *store, url, options, std::move(found), std::move(side), part.files.has_value()};
    Transfer done;
    auto held = bring_copy(remote, entry, done);
    if (transfer != nullptr) *transfer = done;
    write_answer(file, {{"url", shown(url)}, {"copy", held.number}});
    return keep(std::move(held));
  } catch (const std::invalid_argument& error) {
    write_answer(file, {{"text", error.what()}, {"fault", input_fault}});
    throw;
  } catch (const std::exception& error) {
    write_answer(file, {{"text", error.what()}});
    throw;
  }
}

}  // namespace dimred::stores
