#include "stores/folder_upload.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "stores/attempts.h"
#include "stores/listing.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

std::string digest_of(const fs::path& file, DigestMemory* memory) {
  if (memory == nullptr) return digest_of_file(file);
  struct stat state {};
  require_environment(::stat(file.c_str(), &state) == 0, "stores", "cannot read ", file.string());
  auto& digest = (*memory)[concat(state.st_dev,
                                  ' ',
                                  state.st_ino,
                                  ' ',
                                  state.st_size,
                                  ' ',
                                  state.st_mtim.tv_sec,
                                  '.',
                                  state.st_mtim.tv_nsec)];
  if (digest.empty()) digest = digest_of_file(file);
  return digest;
}

/// One folder's way to a store.
class FolderUpload {
 public:
  FolderUpload(Store& store, fs::path local, Url url, const StoreOptions& options)
      : store_(store), local_(std::move(local)), url_(std::move(url)), options_(options) {}

  Transfer run(DigestMemory* memory) {
    const auto before = look();
    const auto plan = plan_of(before, memory);
    // Nothing is as it was but the listing: there is nothing to do.
    if (!before.intended && same(plan, before.complete) && tidy(plan)) return transfer_;
    put_text(incomplete_name, listing_text(intention(plan, before)));
    std::vector<std::pair<std::string, std::string>> missing;
    for (const auto& [name, file] : plan) {
      if (is_there(before, name, file)) {
        ++transfer_.present;
      } else {
        missing.emplace_back(name, file.stored);
      }
    }
    put_all(missing);
    commit(plan);
    auto own = plan;  // every file under its own name again, while the listing names the other
    std::vector<std::pair<std::string, std::string>> again;
    for (auto& [name, file] : own) {
      if (file.stored != name) again.emplace_back(name, name);
      file.stored = name;
    }
    put_all(again);
    if (!tidy(plan)) commit(own);
    clean(before, own);
    return transfer_;
  }

 private:
  struct Before {
    Listing complete;  // what whoever downloads now gets
    std::optional<Listing> intended;
    std::map<std::string, std::int64_t> objects;  // all that is there, with sizes
  };

  static bool tidy(const Listing& listing) {
    return std::ranges::all_of(listing,
                               [](const auto& one) { return one.second.stored == one.first; });
  }

  static bool same(const Listing& a, const Listing& b) {
    return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
      return one.first == other.first && one.second.digest == other.second.digest &&
             one.second.stored == other.second.stored;
    });
  }

  Before look() {
    Before before;
    const auto items = list();
    const auto read = [&](const char* name) -> std::optional<Listing> {
      const auto at = std::ranges::find(items, name, &Item::name);
      if (at == items.end()) return {};
      return read_listing(store_, child(url_, name), *at, options_);
    };
    before.intended = read(incomplete_name);
    const auto complete = read(complete_name);
    if (complete) before.complete = *complete;
    require(complete || before.intended || items.empty(),
            "stores",
            shown(url_),
            " holds files that are no upload of ours; choose another place");
    for (const auto& item : items) before.objects[item.name] = item.size;
    return before;
  }

  /// A name that an object of other bytes has, or may have, is not used for new ones.
  Listing plan_of(const Before& before, DigestMemory* memory) {
    Listing plan;
    const auto at = [](const Listing& listing, const std::string& name) {
      const auto found = listing.find(name);
      return found == listing.end() ? nullptr : &found->second;
    };
    for (const auto& name : files_to_send(local_)) {
      ListedFile file{static_cast<std::int64_t>(fs::file_size(local_ / name)),
                      digest_of(local_ / name, memory),
                      name};
      const auto* now = at(before.complete, name);
      const auto* meant = before.intended ? at(*before.intended, name) : nullptr;
      if (now != nullptr && now->digest == file.digest) {
        file.stored = now->stored;
      } else if (meant != nullptr && meant->digest == file.digest) {
        file.stored = meant->stored;
      } else if (now != nullptr || meant != nullptr) {
        file.stored = concat(name, '.', file.digest.substr(0, 12));
      }
      plan.emplace(name, std::move(file));
    }
    return plan;
  }

  bool is_there(const Before& before, const std::string& name, const ListedFile& file) {
    const auto is = [&](const Listing& listing) {
      const auto found = listing.find(name);
      return found != listing.end() && found->second.digest == file.digest &&
             found->second.stored == file.stored;
    };
    const auto object = before.objects.find(file.stored);
    return object != before.objects.end() && object->second == file.size &&
           (is(before.complete) || (before.intended && is(*before.intended)));
  }

  std::vector<Item> list() {
    std::vector<Item> items;
    with_attempts(options_, [&] { items = store_.list(url_); });
    return items;
  }

  std::map<std::string, std::int64_t> sizes() {
    std::map<std::string, std::int64_t> result;
    for (const auto& item : list()) result[item.name] = item.size;
    return result;
  }

  /// (name here, object's name there); what an attempt has sent the next one leaves out.
  void put_all(const std::vector<std::pair<std::string, std::string>>& names) {
    std::vector<Put> files;
    for (const auto& [name, stored] : names) {
      files.push_back({local_ / name, child(url_, stored)});
      transfer_.bytes += static_cast<std::int64_t>(fs::file_size(local_ / name));
      ++transfer_.files;
    }
    // Alone where a request costs little: then a failure costs one file.
    if (store_.seeks()) {
      for (const auto& file : files)
        with_attempts(options_, [&] { store_.put(file.local, file.url); });
    } else if (!files.empty()) {
      with_attempts(options_, [&] { store_.put_all(files); });
    }
  }

  void put_text(const std::string& name, const std::string& text) {
    auto file = (fs::temp_directory_path() / "dimred-XXXXXX").string();
    const int descriptor = mkstemp(file.data());
    require_environment(
        descriptor >= 0, "stores", "cannot write in ", fs::temp_directory_path().string());
    close(descriptor);
    try {
      require_environment(static_cast<bool>(std::ofstream(file) << text << std::flush),
                          "stores",
                          "cannot write ",
                          file);
      with_attempts(options_, [&] { store_.put(file, child(url_, name)); });
    } catch (...) {
      fs::remove(file);
      throw;
    }
    fs::remove(file);
  }

  /// What is meant to be there, and what is there of ours and will go: whoever takes this upload up
  /// after us can clear it away.
  static Listing intention(const Listing& plan, const Before& before) {
    Listing all = plan;
    std::set<std::string> wanted;
    for (const auto& [name, file] : plan) wanted.insert(file.stored);
    const auto add = [&](const Listing& earlier) {
      for (const auto& [name, file] : earlier) {
        if (!wanted.contains(file.stored))
          all.try_emplace(file.stored, ListedFile{file.size, file.digest, file.stored});
      }
    };
    add(before.complete);
    if (before.intended) add(*before.intended);
    return all;
  }

  void commit(const Listing& listing) {
    const auto objects = sizes();
    for (const auto& [name, file] : listing) {
      const auto object = objects.find(file.stored);
      const bool right = object != objects.end() && object->second == file.size;
      if (!right)
        throw StoreError(concat("[stores] ",
                                shown(child(url_, file.stored)),
                                " has ",
                                object == objects.end() ? 0 : object->second,
                                " bytes after the upload of ",
                                file.size),
                         true);
    }
    put_text(complete_name, listing_text(listing));
  }

  /// What earlier uploads of ours left and this one does not list.
  void clean(const Before& before, const Listing& listing) {
    std::set<std::string> ours;
    for (const auto& [name, file] : before.complete) ours.insert({name, file.stored});
    if (before.intended)
      for (const auto& [name, file] : *before.intended) ours.insert({name, file.stored});
    for (const auto& [name, file] : listing)
      ours.insert(concat(name, '.', file.digest.substr(0, 12)));
    for (const auto& [name, file] : listing) ours.erase(file.stored);
    std::vector<Url> gone;
    for (const auto& [name, size] : sizes()) {
      if (ours.contains(name)) gone.push_back(child(url_, name));
    }
    with_attempts(options_, [&] { store_.remove_all(gone); });
    with_attempts(options_, [&] { store_.remove(child(url_, incomplete_name)); });
  }

  Store& store_;
  fs::path local_;
  Url url_;
  const StoreOptions& options_;
  Transfer transfer_;
};

}  // namespace

Transfer upload_folder(Store& store,
                       const fs::path& local,
                       const Url& url,
                       const StoreOptions& options,
                       DigestMemory* memory) {
  return FolderUpload(store, local, url, options).run(memory);
}

}  // namespace dimred::stores
