#include <algorithm>

#include "stores/local_files.h"
#include "stores/options.h"
#include "stores/store.h"
#include "support/atomic_file.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// A local failure (a full disk, a missing permission) comes again at the next attempt.
template <class Work>
auto lasting(const Url& url, const char* doing, Work work) {
  try {
    return work();
  } catch (const StoreError&) {
    throw;
  } catch (const fs::filesystem_error& error) {
    const auto reason = error.code().message();
    throw StoreError("cannot {} {}: {}: {}", doing, url, error.path1().string(), reason);
  } catch (const std::runtime_error& error) {
    throw StoreError("cannot {} {}: {}", doing, url, error.what());
  }
}

/// A folder that this machine sees as such: local, NFS, or any other that is mounted.
class FileStore : public Store {
 public:
  using Store::Store;

  std::optional<Item> stat(const Url& url) override {
    return lasting(url, "look at", [&] { return look_at_file(decoded_path(url)); });
  }

  std::vector<Item> list(const Url& folder) override {
    return lasting(folder, "list", [&] {
      std::vector<Item> items;
      const fs::path root = listed_ = decoded_path(folder);
      if (!fs::is_directory(root)) return items;
      const auto walked = walk(root);
      for (const auto& name : walked.others)
        require_environment(
            !fs::is_symlink(root / name), "[stores] {} is a link that leads to no file", name);
      for (const auto& name : walked.files) {
        auto item = stat(child(folder, name));
        if (!item) continue;  // whoever writes there may have renamed it by now
        item->name = name;
        items.push_back(std::move(*item));
      }
      return items;
    });
  }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    lasting(url, "read", [&] {
      const fs::path path = decoded_path(url);
      const auto now = stat(url);
      if (!now || now->size != expected.size ||
          (!expected.etag.empty() && now->etag != expected.etag))
        throw Changed("{} {} since dimred listed it", url, now ? "has changed" : "is gone");
      std::optional<InputFile> file;
      try {
        file.emplace(path);
      } catch (const std::invalid_argument&) {
        throw Changed("{} is gone since dimred listed it", url);
      }
      file->read(offset, sink);
    });
  }

  void put(const std::vector<Put>& files) override {
    for (const auto& [local, url] : files)
      lasting(url, "write", [&, &local = local, &url = url] {
        const fs::path path = decoded_path(url);
        const auto folder = path.parent_path();
        const bool inside = !listed_.empty() && *folder.lexically_relative(listed_).begin() != "..";
        create_folders_inside(inside ? listed_ : folder, folder);
        AtomicFile out(path);
        InputFile(local).read(0, [&](std::span<const std::byte> bytes) {
          if (is_stopped(options())) throw StopRequested("{} was stopped", url);
          out.append(bytes);
        });
        out.commit();
      });
  }

  std::string temporary_ending() const override { return ".tmp"; }

  void remove(const std::vector<Url>& urls) override {
    for (const auto& url : urls)
      lasting(url, "remove", [&] {
        const fs::path path = decoded_path(url);
        fs::remove(path);
        std::error_code not_empty;  // what object stores do not have: folders without files
        fs::remove(path.parent_path(), not_empty);
      });
  }

 private:
  fs::path listed_;  // below this folder no link is followed
};

}  // namespace

std::unique_ptr<Store> make_file_store(const StoreOptions& options) {
  return std::make_unique<FileStore>(options);
}

}  // namespace dimred::stores
