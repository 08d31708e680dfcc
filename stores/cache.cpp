#include "stores/cache.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "stores/attempts.h"
#include "stores/journal.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/file_lock.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string read_text(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// One copy of what lies at a URL. While a process uses it, nobody changes it: who finds other data
/// there makes the next copy.
struct Copy {
  fs::path folder;   // content, content.2, ...
  fs::path journal;  // which files are whole
  fs::path use;      // its lock: shared by those who read
};

Copy copy_of(const fs::path& entry, int number) {
  const auto end = number == 1 ? std::string() : concat('.', number);
  return {entry / ("content" + end), entry / ("files" + end + ".jsonl"), entry / ("use" + end)};
}

/// Until this process ends: data is read lazily. False while another changes that copy.
bool hold(const Copy& copy, LockKind kind) {
  static std::map<fs::path, std::unique_ptr<FileLock>> held;
  auto& lock = held[copy.use];
  if (!lock) lock = std::make_unique<FileLock>(copy.use);
  return lock->try_take(kind);
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

  std::vector<Wanted> in(const Copy& copy) const {
    const auto local = is_pattern(url) ? copy.folder : copy.folder / last_name(url);
    auto wanted = as_local(url, found, local);
    if (side) wanted.push_back({*side, fs::path(local).replace_extension(".json")});
    return wanted;
  }
};

/// The copy's number. Whoever calls this has the entry's lock.
int bring_copy(const Remote& remote, const fs::path& entry, Transfer& transfer) {
  int copies = 0;
  while (fs::exists(copy_of(entry, copies + 1).use)) ++copies;
  for (int number = 1; number <= copies; ++number) {
    const auto copy = copy_of(entry, number);
    const auto wanted = remote.in(copy);
    const Journal journal(copy.journal, copy.folder);
    const bool current =
        std::ranges::all_of(wanted, [&](const Wanted& one) { return journal.knows(one); });
    if (!current || !hold(copy, LockKind::shared)) continue;
    transfer.present = std::ssize(wanted);
    return number;
  }
  for (int number = 1;; ++number) {
    const auto copy = copy_of(entry, number);
    if (!hold(copy, LockKind::exclusive)) continue;  // somebody reads it
    const auto wanted = remote.in(copy);
    create_folders(copy.folder);
    Journal journal(copy.journal, copy.folder);
    transfer = bring_files(remote.store, wanted, remote.options, &journal);
    journal.settle(wanted, /*clears=*/true);
    hold(copy, LockKind::shared);
    return number;
  }
}

constexpr auto input_fault = "input";

/// What whoever had the lock while we waited has come to: his copy's number, or his error.
std::optional<int> answer_since(double began, const fs::path& file) {
  const auto last = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
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

fs::path bring(const Url& url, const StoreOptions& options, Transfer* transfer) {
  const auto entry = place_of(url, "inputs", options).entry;
  const auto path = [&](int number) { return copy_of(entry, number).folder / last_name(url); };
  create_folders(entry);
  const auto file = entry / "answer.json";
  const auto began = now();
  FileLock lock(entry / "lock");
  lock.take(LockKind::exclusive);
  if (const auto number = answer_since(began, file)) {
    hold(copy_of(entry, *number), LockKind::shared);
    return path(*number);
  }
  try {
    const auto store = open_store(url, options);
    auto found = find(*store, url, options);
    auto side = beside(*store, url, found, options);
    const Remote remote{*store, url, options, std::move(found), std::move(side)};
    Transfer done;
    const int number = bring_copy(remote, entry, done);
    if (transfer != nullptr) *transfer = done;
    write_answer(file, {{"url", shown(url)}, {"copy", number}});
    return path(number);
  } catch (const std::invalid_argument& error) {
    write_answer(file, {{"text", error.what()}, {"fault", input_fault}});
    throw;
  } catch (const std::exception& error) {
    write_answer(file, {{"text", error.what()}});
    throw;
  }
}

}  // namespace dimred::stores
