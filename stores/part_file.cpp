#include "stores/part_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "stores/attempts.h"
#include "stores/listing.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/file_lock.h"
#include "support/locations.h"
#include "support/open_file.h"
#include "support/retry.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// NAME.part, and NAME.part.of, which says whose beginning that is.
class PartFile {
 public:
  explicit PartFile(const fs::path& to)
      : path_(to.string() + ".part"), note_(path_.string() + ".of") {
    while (true) {
      descriptor_ = open_no_follow(path_, O_RDWR | O_CREAT);
      if (try_lock(descriptor_) == LockAnswer::busy) {
        close(descriptor_);
        throw std::runtime_error(formatted("[stores] another process downloads {}", to.string()));
      }
      if (still_named(descriptor_, path_)) return;
      close(descriptor_);  // the file that another process has just finished
    }
  }
  ~PartFile() { close(descriptor_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const fs::path& path() const { return path_; }

  std::int64_t size() const {
    struct stat state {};
    require(fstat(descriptor_, &state) == 0, "fstat");
    return state.st_size;
  }

  /// Keeps what is there if it is the beginning of the file that `note` describes.
  void take_up(const std::string& note, std::int64_t most) {
    std::ostringstream earlier;
    earlier << std::ifstream(note_, std::ios::binary).rdbuf();
    if (earlier.str() == note && size() <= most) return;
    clear();
    write_file_atomically(note_, note);
  }

  void clear() { require(ftruncate(descriptor_, 0) == 0, "ftruncate"); }

  void append(std::span<const std::byte> bytes) {
    for (auto at = size(); !bytes.empty();) {
      const auto written =
          retrying([&] { return pwrite(descriptor_, bytes.data(), bytes.size(), at); });
      require(written > 0, "write");
      at += written;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void commit(const fs::path& to) {
    require(retrying([&] { return fsync(descriptor_); }) == 0, "fsync");
    fs::rename(path_, to);
    fs::remove(note_);
    sync_folder(to.parent_path());
  }

 private:
  void require(bool done, const char* call) const {
    require_environment(done, "[stores] {} {}: {}", call, path_.string(), std::strerror(errno));
  }

  fs::path path_;
  fs::path note_;
  int descriptor_ = -1;
};

/// Some files by one request, which is made again for those that are not whole.
class Batch {
 public:
  Batch(Store& store, std::vector<Wanted> files, const std::function<void(const Wanted&)>& noted)
      : store_(store), left_(std::move(files)), noted_(noted) {}

  std::int64_t fetch(const StoreOptions& options) {
    with_attempts(
        options, [&] { attempt(); }, [&] { return std::exchange(moved_, false); });
    return received_;
  }

 private:
  void attempt() {
    const auto files = left_;
    std::vector<std::unique_ptr<PartFile>> parts(files.size());
    const auto part = [&](std::size_t i) -> PartFile& {
      if (parts[i]) return *parts[i];
      create_folders(files[i].to.parent_path());
      parts[i] = std::make_unique<PartFile>(files[i].to);
      parts[i]->take_up("", 0);
      parts[i]->clear();
      return *parts[i];
    };
    const auto commit = [&](std::size_t i) {
      part(i).commit(files[i].to);
      parts[i].reset();
      noted_(files[i]);
      std::erase_if(left_, [&](const Wanted& one) { return one.to == files[i].to; });
      moved_ = true;
    };
    std::size_t next = 0;  // whose end has not come
    const auto end_until = [&](std::size_t end) {
      for (; next < end; ++next) {
        require_right(files[next].found, part(next));
        if (!files[next].found.digest.empty()) commit(next);
      }
    };
    std::vector<Url> urls;
    std::vector<std::int64_t> sizes;
    for (const auto& [found, to] : files) {
      urls.push_back(found.url);
      sizes.push_back(found.item.size);
    }
    store_.read_all(urls, sizes, [&](std::size_t i, std::span<const std::byte> bytes) {
      end_until(i);
      received_ += std::ssize(bytes);
      part(i).append(bytes);
    });
    end_until(files.size());
    // Without digests one of another length by now would have shifted those behind it.
    for (std::size_t i = 0; i < files.size(); ++i)
      if (files[i].found.digest.empty()) commit(i);
  }

  static void require_right(const Found& found, const PartFile& part) {
    const bool right = part.size() == found.item.size &&
                       (found.digest.empty() || digest_of_file(part.path()) == found.digest);
    if (!right)
      throw StoreError(formatted("[stores] {} differs from its digest or length", shown(found.url)),
                       true);
  }

  Store& store_;
  std::vector<Wanted> left_;
  const std::function<void(const Wanted&)>& noted_;
  bool moved_ = false;
  std::int64_t received_ = 0;
};

/// A digest tells what was read; else only that the file is still the one that was begun.
void require_unchanged(Store& store, const Found& found, const StoreOptions& options) {
  if (!found.digest.empty()) return;
  std::optional<Item> now;
  with_attempts(options, [&] { now = store.stat(found.url); });
  if (now && now->size == found.item.size && now->etag == found.item.etag) return;
  throw Changed(formatted("[stores] {} has changed while it was read", shown(found.url)));
}

}  // namespace

std::int64_t fetch(Store& store,
                   const Found& found,
                   const fs::path& to,
                   const StoreOptions& options) {
  create_folders(to.parent_path());
  const auto& item = found.item;
  PartFile part(to);
  // Without an etag nobody knows whether the beginning is still that file's.
  const bool continues = store.seeks() && !item.etag.empty();
  part.take_up(formatted("{}\n{}\n{}\n",
                         without_credentials(whole(found.url)),
                         item.size,
                         continues ? item.etag : ""),
               item.size);
  std::int64_t received = 0;
  std::int64_t furthest = part.size();  // of all attempts: what is read once more is no progress
  bool further = false;
  auto expected = item;
  if (!found.digest.empty()) expected.etag.clear();  // a digest, which no server knows
  with_attempts(
      options,
      [&] {
        if (!continues) part.clear();
        auto at = part.size();
        store.read(found.url, expected, at, [&](std::span<const std::byte> bytes) {
          if (is_stopped(options))
            throw Stopped(formatted("[stores] {} was stopped", shown(found.url)));
          received += std::ssize(bytes);
          part.append(bytes);
          at += std::ssize(bytes);
          further = further || at > furthest;
          furthest = std::max(furthest, at);
        });
        const auto size = part.size();
        const bool right = size == item.size &&
                           (found.digest.empty() || digest_of_file(part.path()) == found.digest);
        if (right) return;
        // What is too long or damaged is of no use; what is too short will be continued.
        if (size >= item.size) {
          part.clear();
          further = false;
        }
        throw StoreError(
            formatted("[stores] {}{}",
                      shown(found.url),
                      size == item.size ? std::string(" differs from its digest")
                                        : formatted(" gave {} bytes of {}", size, item.size)),
            true);
      },
      [&] { return continues && std::exchange(further, false); });
  try {
    require_unchanged(store, found, options);
  } catch (const Changed&) {
    part.clear();
    throw;
  }
  part.commit(to);
  return received;
}

std::int64_t fetch_together(Store& store,
                            const std::vector<Wanted>& files,
                            const StoreOptions& options,
                            const std::function<void(const Wanted&)>& noted) {
  constexpr std::int64_t most_bytes = 256 << 20;  // that a failure may cost
  std::int64_t received = 0;
  for (std::size_t begin = 0; begin < files.size();) {
    std::int64_t bytes = 0;
    std::vector<Wanted> batch;
    while (begin < files.size() && batch.size() < store.together()) {
      bytes += files[begin].found.item.size;
      if (!batch.empty() && bytes > most_bytes) break;
      batch.push_back(files[begin++]);
    }
    received += Batch(store, std::move(batch), noted).fetch(options);
  }
  return received;
}

}  // namespace dimred::stores
