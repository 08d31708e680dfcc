#include "stores/folder_upload.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "stores/attempts.h"
#include "stores/upload_plan.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// One folder's way to a store.
class FolderUpload {
 public:
  FolderUpload(Store& store, fs::path local, Url url, const StoreOptions& options)
      : store_(store), local_(std::move(local)), url_(std::move(url)), options_(options) {}

  Transfer run(const Selection& selection, DigestMemory* memory) {
    transfer_.left_out = selection.left_out;
    require_names(store_, url_, selection.names);
    const auto before = look_at(store_, url_, options_);
    require_free(store_, url_, before, selection.names);
    const auto plan = plan_of(before, local_, selection.names, memory);
    if (is_done(before, plan)) {
      transfer_.present = std::ssize(plan);
      return transfer_;
    }
    for (const auto& [name, size] : before.objects) there_.insert(name);
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
    if (!is_tidy(plan)) commit(own);
    clean(before, own);
    return transfer_;
  }

 private:
  std::map<std::string, std::int64_t> sizes() {
    std::map<std::string, std::int64_t> result;
    std::vector<Item> items;
    with_attempts(options_, [&] { items = store_.list(url_); });
    for (const auto& item : items) result[item.name] = item.size;
    return result;
  }

  void go_on() const {
    if (is_stopped(options_))
      throw Stopped(formatted("[stores] the upload to {} was stopped", shown(url_)));
  }

  /// (name here, object's name there). A failure costs the files of one request.
  void put_all(const std::vector<std::pair<std::string, std::string>>& names) {
    for (std::size_t begin = 0; begin < names.size(); begin += store_.together()) {
      go_on();
      std::vector<Put> files;
      const auto end = std::min(begin + store_.together(), names.size());
      for (auto i = begin; i < end; ++i) {
        const auto& [name, stored] = names[i];
        files.push_back({local_ / name, child(url_, stored)});
        transfer_.bytes += static_cast<std::int64_t>(fs::file_size(local_ / name));
        ++transfer_.files;
      }
      with_attempts(options_, [&] { store_.put_all(files); });
    }
  }

  /// Where put() leaves nothing there for a moment, the second name holds meanwhile.
  void put_text(const std::string& name, const std::string& text) {
    go_on();
    auto file = (fs::temp_directory_path() / "dimred-XXXXXX").string();
    const int descriptor = mkstemp(file.data());
    require_environment(
        descriptor >= 0, "[stores] cannot write in {}", fs::temp_directory_path().string());
    close(descriptor);
    try {
      require_environment(static_cast<bool>(std::ofstream(file) << text << std::flush),
                          "[stores] cannot write {}",
                          file);
      if (!store_.replaces() && there_.contains(name))
        with_attempts(options_, [&] { store_.put(file, child(url_, second_name(name))); });
      with_attempts(options_, [&] { store_.put(file, child(url_, name)); });
    } catch (...) {
      fs::remove(file);
      throw;
    }
    fs::remove(file);
    there_.insert(name);
  }

  void commit(const Listing& listing) {
    const auto objects = sizes();
    for (const auto& [name, file] : listing) {
      const auto object = objects.find(file.stored);
      const bool right = object != objects.end() && object->second == file.size;
      if (!right)
        throw StoreError(formatted("[stores] {} has {} bytes after the upload of {}",
                                   shown(child(url_, file.stored)),
                                   object == objects.end() ? 0 : object->second,
                                   file.size),
                         true);
    }
    put_text(complete_name, listing_text(listing));
  }

  /// What earlier uploads of ours left and this one does not list.
  void clean(const Before& before, const Listing& listing) {
    const auto ours = remains(before, listing, store_.temporary_ending());
    std::vector<Url> gone;
    for (const auto& [name, size] : sizes()) {
      if (ours.contains(name)) gone.push_back(child(url_, name));
    }
    for (std::size_t begin = 0; begin < gone.size(); begin += store_.together()) {
      const auto end = std::min(begin + store_.together(), gone.size());
      const std::vector<Url> part(gone.begin() + static_cast<std::ptrdiff_t>(begin),
                                  gone.begin() + static_cast<std::ptrdiff_t>(end));
      with_attempts(options_, [&] { store_.remove_all(part); });
    }
    with_attempts(options_, [&] { store_.remove(child(url_, incomplete_name)); });
  }

  Store& store_;
  fs::path local_;
  Url url_;
  const StoreOptions& options_;
  std::set<std::string> there_;
  Transfer transfer_;
};

}  // namespace

Transfer upload_folder(Store& store,
                       const fs::path& local,
                       const Url& url,
                       const StoreOptions& options,
                       const Selection& selection,
                       DigestMemory* memory) {
  return FolderUpload(store, local, url, options).run(selection, memory);
}

}  // namespace dimred::stores
