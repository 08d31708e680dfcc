#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "stores/store.h"
#include "stores/walk.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t part_bytes = 4 << 20;

Item item_of(const fs::path& path, std::string name) {
  struct stat state {};
  require_environment(
      ::stat(path.c_str(), &state) == 0, "[stores] cannot look at {}", path.string());
  // A file that was replaced differs in one of these, as rsync assumes, too.
  return {std::move(name),
          static_cast<std::int64_t>(state.st_size),
          formatted("{}.{}-{}", state.st_mtim.tv_sec, state.st_mtim.tv_nsec, state.st_ino)};
}

/// What goes wrong here (a full disk, a missing permission) does so at the next attempt, too.
template <class Work>
auto lasting(const Url& url, const char* doing, Work work) {
  try {
    return work();
  } catch (const StoreError&) {
    throw;
  } catch (const fs::filesystem_error& error) {
    throw StoreError(formatted("[stores] cannot {} {}: {}: {}",
                               doing,
                               shown(url),
                               error.path1().string(),
                               error.code().message()),
                     false);
  } catch (const std::runtime_error& error) {
    throw StoreError(formatted("[stores] cannot {} {}: {}", doing, shown(url), error.what()),
                     false);
  }
}

/// A folder that this machine sees as such: local, NFS, or any other that is mounted.
class FileStore : public Store {
 public:
  explicit FileStore(const StoreOptions& options) : options_(options) {}

  std::optional<Item> stat(const Url& url) override {
    return lasting(url, "look at", [&]() -> std::optional<Item> {
      const fs::path path = decoded_path(url);
      if (!fs::is_regular_file(path)) return {};
      return item_of(path, "");
    });
  }

  std::vector<Item> list(const Url& folder) override {
    return lasting(folder, "list", [&] {
      std::vector<Item> items;
      const fs::path root = listed_ = decoded_path(folder);
      if (!fs::is_directory(root)) return items;
      auto walked = walk(root);
      for (const auto& name : walked.others)
        require_environment(
            !fs::is_symlink(root / name), "[stores] {} is a link that leads to no file", name);
      for (auto& name : walked.files) {
        const auto path = root / name;
        // Whoever writes there may have renamed it by now.
        if (fs::is_regular_file(path)) items.push_back(item_of(path, std::move(name)));
      }
      return items;
    });
  }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    lasting(url, "read", [&] {
      const fs::path path = decoded_path(url);
      const InputFile file(path);
      if (file.size() != expected.size ||
          (!expected.etag.empty() && item_of(path, "").etag != expected.etag))
        throw Changed(formatted("[stores] {} has changed since it was looked at", shown(url)));
      std::vector<std::byte> part(part_bytes);
      for (auto at = offset; at < expected.size; at += std::ssize(part)) {
        part.resize(std::min<std::size_t>(part_bytes, expected.size - at));
        file.read(at, part);
        sink(part);
      }
    });
  }

  void put(const fs::path& local, const Url& url) override {
    lasting(url, "write", [&] {
      const fs::path path = decoded_path(url);
      const auto folder = path.parent_path();
      const bool inside = !listed_.empty() && *folder.lexically_relative(listed_).begin() != "..";
      create_folders_inside(inside ? listed_ : folder, folder);
      const InputFile in(local);
      AtomicFile out(path);
      std::vector<std::byte> part(part_bytes);
      for (std::int64_t at = 0; at < in.size(); at += std::ssize(part)) {
        if (is_stopped(options_)) throw Stopped(formatted("[stores] {} was stopped", shown(url)));
        part.resize(std::min<std::size_t>(part_bytes, in.size() - at));
        in.read(at, part);
        out.append(part);
      }
      out.commit();
    });
  }

  std::string temporary_ending() const override { return ".tmp"; }

  void remove(const Url& url) override {
    lasting(url, "remove", [&] {
      const fs::path path = decoded_path(url);
      fs::remove(path);
      std::error_code not_empty;  // what object stores do not have: folders without files
      fs::remove(path.parent_path(), not_empty);
    });
  }

 private:
  StoreOptions options_;
  fs::path listed_;  // below this folder no link is followed
};

}  // namespace

std::unique_ptr<Store> make_file_store(const StoreOptions& options) {
  return std::make_unique<FileStore>(options);
}

}  // namespace dimred::stores
