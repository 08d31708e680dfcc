#include "stores/download.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "stores/attempts.h"
#include "stores/local_files.h"
#include "support/atomic_file.h"
#include "support/descriptor.h"
#include "support/digest.h"
#include "support/file_lock.h"
#include "support/text.h"
#include "support/url.h"

namespace dimred::stores {

namespace fs = std::filesystem;

/// NAME.part, and NAME.part.of, which says whose beginning that is.
class PartFile {
 public:
  explicit PartFile(const fs::path& to)
      : path_(to.string() + ".part"), note_(path_.string() + ".of"), opened_(open(to)) {}

  const fs::path& path() const { return path_; }

  std::int64_t size() const {
    struct stat state {};
    require_call(fstat(opened_, &state) == 0, "fstat", path_);
    return state.st_size;
  }

  /// Keeps what is there if it is the beginning of this file and `continues`.
  void take_up(const Found& found, bool continues) {
    const auto& [name, size, etag] = found.item;
    const auto note = formatted("{}\n{}\n{}\n", without_credentials(whole(found.url)), size, etag);
    const auto earlier = text_or_none(note_);
    if (continues && earlier == note && this->size() <= size) return;
    clear();
    if (earlier != note) write_file_atomically(note_, note);
  }

  void clear() { require_call(ftruncate(opened_, 0) == 0, "ftruncate", path_); }

  void append(ByteView bytes) { write_exactly(opened_, size(), bytes, path_); }

  void commit(const fs::path& to) {
    require_call(retrying([&] { return fsync(opened_); }) == 0, "fsync", path_);
    fs::rename(path_, to);
    fs::remove(note_);
    sync_folder(to.parent_path());
  }

 private:
  Descriptor open(const fs::path& to) const {
    require_regular_or_absent(to);
    create_folders(to.parent_path());
    auto opened = open_locked(path_);
    if (opened < 0)
      throw StoreError("another process is downloading {}; start again when that process has ended",
                       to);
    return opened;
  }

  fs::path path_;
  fs::path note_;
  Descriptor opened_;
};

/// Throws Changed where no digest tells what was read and it is another file by now. (Hadoop's
/// client reads one version.)
void require_unchanged(Store& store, const Found& found, PartFile& part) {
  if (!found.digest.empty() || !store.seeks()) return;
  const auto now = store.stat(found.url);
  if (now && now->size == found.item.size && now->etag == found.item.etag) return;
  part.clear();
  throw Changed("{} has changed while it was read", found.url);
}

/// Requires as above, and throws Passing if the part is not the whole file; clears useless parts.
void require_right(Store& store, const Found& found, PartFile& part) {
  const auto size = part.size();
  const bool whole = size == found.item.size;
  if (whole && (found.digest.empty() || file_digest(part.path()) == found.digest))
    return require_unchanged(store, found, part);
  if (size >= found.item.size) part.clear();  // too long or damaged; else it may be continued
  if (whole) throw Passing("{} does not match its digest", found.url);
  throw Passing("{} sent {} bytes instead of {}", found.url, size, found.item.size);
}

/// Brings files by one request, repeats it for incomplete ones, and goes on at the end of a single
/// file's part; each that is whole is `noted` at once.
class Fetch {
 public:
  using Noted = std::function<void(const Wanted&)>;

  Fetch(Store& store, std::vector<Wanted> files, Noted noted)
      : store_(store),
        left_(std::move(files)),
        noted_(std::move(noted)),
        // Without an etag nobody knows whether the beginning is still that file's.
        continues_(store.seeks() && !left_.front().found.item.etag.empty()) {}

  /// Returns the bytes that were read. Throws StoreError also when another process is at it.
  std::int64_t run() {
    with_attempts(
        store_,
        [this] { attempt(); },
        [this] { return continues_ ? part_file(left_.front()).size() : -std::ssize(left_); });
    return received_;
  }

 private:
  void attempt() {
    if (!continues_) parts_.clear();
    files_ = left_;
    next_ = 0;
    std::vector<Found> found;
    for (const auto& one : files_) found.push_back(one.found);
    store_.read_all(
        found, part_file(files_.front()).size(), [this](ByteView bytes) { take(bytes); });
    while (next_ < files_.size()) end_next();
    // Without digests one of another length by now would have shifted those behind it.
    for (const auto& one : files_)
      if (one.found.digest.empty()) commit(one);
  }

  void take(ByteView bytes) {
    if (is_stopped(store_.options()))
      throw StopRequested("{} was stopped", files_.front().found.url);
    received_ += std::ssize(bytes);
    while (!bytes.empty()) {
      const auto& found = files_[next_].found;
      auto& part = part_file(files_[next_]);
      const auto missing = static_cast<std::size_t>(found.item.size - part.size());
      if (missing == 0 && next_ + 1 == files_.size())
        throw Changed("the length of {} has changed", found.url);
      if (missing == 0) {
        end_next();
        continue;
      }
      const auto own = bytes.first(std::min(bytes.size(), missing));
      part.append(own);
      bytes = bytes.subspan(own.size());
    }
  }

  void end_next() {
    const auto& one = files_[next_++];
    require_right(store_, one.found, part_file(one));
    if (!one.found.digest.empty()) commit(one);
  }

  PartFile& part_file(const Wanted& one) {
    const auto [at, is_new] = parts_.try_emplace(one.to, one.to);
    if (is_new) at->second.take_up(one.found, continues_);
    return at->second;
  }

  void commit(const Wanted& one) {
    part_file(one).commit(one.to);
    parts_.erase(one.to);
    noted_(one);
    std::erase_if(left_, [&](const Wanted& other) { return other.to == one.to; });
  }

  Store& store_;
  std::vector<Wanted> left_;
  Noted noted_;
  bool continues_;
  std::int64_t received_ = 0;
  std::map<fs::path, PartFile> parts_;
  std::vector<Wanted> files_;  // of the request under way
  std::size_t next_ = 0;       // the file that comes
};

std::vector<Wanted> placed_at(const Url& url,
                              const std::vector<Found>& found,
                              const fs::path& local) {
  require(!found.empty(), "[stores] found no file at {}", url);
  if (is_single(found)) return {{found.front(), local}};
  std::vector<Wanted> wanted;
  for (const auto& one : found) wanted.push_back({one, local / one.item.name});
  return wanted;
}

Transfer bring_files(Store& store, const std::vector<Wanted>& wanted, Journal* journal) {
  constexpr std::int64_t most_bytes = 256 << 20;  // that a failure may cost
  const auto most_files = store.seeks() ? 1 : store.together();
  Transfer transfer;
  std::vector<Wanted> batch;
  std::int64_t bytes = 0;
  const auto bring_batch = [&] {
    if (batch.empty()) return;
    transfer.bytes += Fetch(store, std::exchange(batch, {}), [&](const Wanted& one) {
                        if (journal != nullptr) journal->note(one);
                      }).run();
    bytes = 0;
  };
  for (const auto& one : wanted) {
    if (journal != nullptr && journal->knows(one)) {
      ++transfer.present;
      continue;
    }
    ++transfer.files;
    const auto size = one.found.item.size;
    if (std::ssize(batch) == most_files || bytes + size > most_bytes) bring_batch();
    batch.push_back(one);
    bytes += size;
  }
  bring_batch();
  return transfer;
}

/// Whether a folder below `root` on the way to `folder` is a link, which is refused when folders
/// are made.
bool is_behind_link(const fs::path& root, fs::path folder) {
  for (; folder != root && folder.has_relative_path(); folder = folder.parent_path())
    if (fs::is_symlink(folder)) return true;
  return false;
}

/// Requires that nothing lies there, or that very file by its digest.
void require_no_other_file(const Wanted& wanted) {
  const auto& [found, to] = wanted;
  if (!fs::is_regular_file(to) || fs::file_size(to) == 0) return;
  require(!found.digest.empty() && file_digest(to) == found.digest,
          "[stores] {} exists already; choose another path or give --overwrite",
          to);
}

/// Whether a text is a note of PartFile's: a URL, a size and an etag, a line each.
bool is_part_note(const std::string& text) {
  std::istringstream in(text);
  std::string url, size, etag, more;
  const bool whole = std::getline(in, url) && std::getline(in, size) && std::getline(in, etag);
  return whole && !std::getline(in, more) && looks_like_url(url) && number_in<std::int64_t>(size);
}

/// Requires that what has the temporary names of a file is an earlier call's, or holds nothing.
void require_free_names(const fs::path& to) {
  const fs::path part = to.string() + ".part", note = part.string() + ".of";
  const auto holds = [](const fs::path& path) {
    return fs::is_regular_file(fs::symlink_status(path)) && fs::file_size(path) > 0;
  };
  const bool noted = holds(note) && is_part_note(text_or_none(note));
  for (const auto& path : {part, note})
    require(noted || !holds(path),
            "[stores] {} has the temporary name '{}', but another file has this temporary name; "
            "move that file, or choose another path",
            to,
            path);
}

Transfer download(Store& store,
                  const Url& url,
                  const std::vector<Found>& found,
                  const fs::path& local,
                  bool overwrite) {
  const auto wanted = placed_at(url, found, local);
  const bool single = is_single(found);
  require(!single || !fs::is_directory(local),
          "[stores] {} is a file, but its local path {} is an existing folder",
          url,
          local);
  require(single || !fs::is_regular_file(local),
          "[stores] {} is a folder, but its local path {} is an existing file",
          url,
          local);
  if (single && !overwrite) require_no_other_file(wanted.front());
  std::set<fs::path> names;
  for (const auto& one : wanted) names.insert(one.to);
  for (const auto& one : wanted)  // a name that is brought, too, is no stranger's
    if (!names.contains(one.to.string() + ".part")) require_free_names(one.to);
  if (single) return bring_files(store, wanted, nullptr);
  const auto noted = local / ".part.of";
  const auto place = without_credentials(whole(url));
  // What a call that was cut has brought is not another file.
  if (!overwrite && !Journal::is_of(noted, place))
    for (const auto& one : wanted)
      if (!is_behind_link(local, one.to.parent_path())) require_no_other_file(one);
  for (const auto& one : wanted) create_folders_inside(local, one.to.parent_path());
  Journal journal(noted, local, place);
  const auto done = bring_files(store, wanted, &journal);
  fs::remove(noted);
  return done;
}

}  // namespace dimred::stores
