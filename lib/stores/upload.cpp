#include "stores/upload.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>

#include "stores/attempts.h"
#include "stores/local_files.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/printable.h"
#include "support/scope_exit.h"
#include "support/url.h"
#include "support/utf8.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

/// The remote state that an upload finds.
struct Before {
  Listing complete;  // the files that a download gets now
  Listing intended;  // of an upload that has not ended
  bool begun = false;
  Sizes objects;               // all that is there
  std::set<std::string> ours;  // names that uploads of ours have given files and objects
};

std::int64_t size_of(const Sizes& sizes, const std::string& name) {
  const auto at = sizes.find(name);
  return at == sizes.end() ? -1 : at->second;
}

std::string name_with_digest(const std::string& name, const ListedFile& file) {
  return formatted("{}.{}", name, file.digest.substr(0, 12));
}

/// Throws std::invalid_argument where something else lies.
Before look_once(Store& store, const Url& url) {
  Before before;
  const auto items = ask(store, [&] { return store.list(url); });
  const auto read = [&](const char* name, Listing& listing) {
    const auto item = listing_among(items, name);
    if (item) listing = read_listing(store, child(url, item->name), *item);
    for (const auto& [file, listed] : listing) before.ours.insert({file, listed.stored});
    return item.has_value();
  };
  before.begun = read(incomplete_name, before.intended);
  const bool complete = read(complete_name, before.complete);
  const auto killed = incomplete_name + store.temporary_ending();  // while it was put
  require(complete || before.begun ||
              std::ranges::all_of(items, [&](const Item& item) { return item.name == killed; }),
          "[stores] {} holds files that dimred did not upload; choose another place",
          url);
  before.objects = sizes_of(items);
  return before;
}

/// Throws std::invalid_argument, before anything is read or sent, for names of files that no reader
/// would take from a listing, that the store does not have, or that it overwrites while another of
/// them is put.
void require_names(const Store& store, const Url& url, const Names& names) {
  const auto ending = store.temporary_ending();
  for (const auto& name : names) {
    require(is_inside(name) && utf8_text(name) == name,
            "[stores] needs file names in UTF-8 without control characters, received {}",
            utf8_text(printable(name)));
    const auto place = child(url, name);
    store.require_name(place);
    const auto put = name + ending;
    require(ending.empty() || !std::ranges::binary_search(names, put),
            "[stores] cannot upload {} under the temporary name {}, because another file of the "
            "upload has this name; rename one of the two",
            place,
            put);
  }
}

/// Refuses names of others' files there, and a name whose upload would overwrite a file being
/// downloaded.
void require_free(const std::string& ending,
                  const Url& url,
                  const Before& before,
                  const Names& names) {
  for (const auto& name : names) {
    const auto place = child(url, name);
    require(!before.objects.contains(name) || before.ours.contains(name),
            "[stores] {} exists already, and dimred did not upload this file; remove this file or "
            "choose another place",
            place);
    require(ending.empty() || !before.complete.contains(name + ending),
            "[stores] cannot upload {} under the temporary name {}, because a file of an earlier "
            "upload to this place already has this name; choose another place",
            place,
            name + ending);
  }
}

/// Does `work` on local files. One that is removed meanwhile, as a run does with old checkpoints,
/// is no fault of the caller's.
template <class Work>
auto with_local(const std::vector<fs::path>& files, const Work& work) {
  try {
    return work();
  } catch (const std::invalid_argument&) {
    const auto gone = std::ranges::find_if_not(files, [](const auto& path) {
      std::error_code unknown;
      return fs::exists(path, unknown) || unknown;
    });
    if (gone == files.end()) throw;
    throw StoreError("{} was removed while its folder was sent", gone->string());
  }
}

std::string remembered_digest(const fs::path& file, DigestMemory* memory) {
  if (memory == nullptr) return with_local({file}, [&] { return file_digest(file); });
  auto& digest = (*memory)[stamp_of(file)];
  if (digest.empty()) digest = with_local({file}, [&] { return file_digest(file); });
  return digest;
}

/// Under which names the files of `local` shall lie there: one that an object of other bytes has,
/// or may have, is not used for new ones.
Listing plan_of(const Before& before,
                const fs::path& local,
                const Names& names,
                DigestMemory* memory) {
  Listing plan;
  for (const auto& name : names) {
    const auto size = static_cast<std::int64_t>(fs::file_size(local / name));
    ListedFile file{size, remembered_digest(local / name, memory), name};
    for (const auto* const listing : {&before.complete, &before.intended}) {
      const auto earlier = listing->find(name);
      if (earlier == listing->end()) continue;
      const bool same = earlier->second.digest == file.digest;
      file.stored = same ? earlier->second.stored : name_with_digest(name, file);
      if (same) break;
    }
    plan.emplace(name, std::move(file));
  }
  return plan;
}

/// Whether the listed object is there already, of these bytes.
bool is_there(const Before& before, const std::string& name, const ListedFile& file) {
  const auto lists = [&](const Listing& listing) {
    const auto found = listing.find(name);
    return found != listing.end() && found->second == file;
  };
  return size_of(before.objects, file.stored) == file.size &&
         (lists(before.complete) || lists(before.intended));
}

/// Whether the place holds the plan, every file under its own name, and nothing is to be done.
bool is_done(const Before& before, const Listing& plan) {
  return !before.begun && plan.size() == before.complete.size() &&
         std::ranges::all_of(plan, [&](const auto& one) {
           return one.second.stored == one.first && is_there(before, one.first, one.second);
         });
}

/// The files that are meant to be there, and those of ours that will go: a process that continues
/// this upload after us can clear it away.
Listing intention(const Listing& plan, const Before& before) {
  Listing all = plan;
  std::set<std::string> wanted;
  for (const auto& [name, file] : plan) wanted.insert(file.stored);
  for (const auto* const earlier : {&before.complete, &before.intended})
    for (const auto& [name, file] : *earlier)
      if (!wanted.contains(file.stored)) all.try_emplace(file.stored, file);
  return all;
}

/// Names of what uploads of ours may have left and `listing` does not hold; `ending`: of the
/// store's temporary names.
std::set<std::string> remains(const Before& before,
                              const Listing& listing,
                              const std::string& ending) {
  auto ours = before.ours;
  ours.insert({second_name(complete_name), second_name(incomplete_name)});
  for (const auto& [name, file] : listing) ours.insert({name, name_with_digest(name, file)});
  if (!ending.empty()) {
    auto names = ours;
    names.insert({complete_name, incomplete_name});
    for (const auto& name : names) ours.insert(name + ending);
  }
  for (const auto& [name, file] : listing) ours.erase(file.stored);
  return ours;
}

/// -1: nothing is there.
void require_size(const Url& url, std::int64_t there, std::int64_t size) {
  const auto bytes = std::max<std::int64_t>(there, 0);
  if (there != size) throw Passing("{} has {} bytes after an upload of {} bytes", url, bytes, size);
}

/// One folder's way to a store: docs/reference/stores.md says in which order, and why each moment
/// is safe.
class FolderUpload {
 public:
  FolderUpload(Store& store, fs::path local, Url url)
      : store_(store), local_(std::move(local)), url_(std::move(url)) {}

  Transfer run(const Selection& selection, DigestMemory* memory) {
    transfer_.left_out = selection.left_out;
    require_names(store_, url_, selection.names);
    const auto before = looking_again([&] { return look_once(store_, url_); });
    require_free(store_.temporary_ending(), url_, before, selection.names);
    const auto plan = plan_of(before, local_, selection.names, memory);
    if (is_done(before, plan)) {
      transfer_.present = std::ssize(plan);
      return transfer_;
    }
    replaces_complete_ = before.objects.contains(complete_name);
    put_text(incomplete_name,
             listing_text(intention(plan, before)),
             before.objects.contains(incomplete_name));
    Names missing;
    for (const auto& [name, file] : plan)
      if (!is_there(before, name, file)) missing.push_back(name);
    transfer_.present = std::ssize(plan) - std::ssize(missing);
    put(missing, plan);
    const auto sent = transfer_;
    commit(plan);
    auto own = plan;  // every file under its own name again, while the listing names the other
    Names again;
    for (auto& [name, file] : own)
      if (std::exchange(file.stored, name) != name) again.push_back(name);
    put(again, own);
    transfer_ = sent;  // a changed file is put twice, and is one file
    if (!again.empty()) commit(own);
    clean(remains(before, own, store_.temporary_ending()));
    return transfer_;
  }

 private:
  Sizes sizes() {
    return sizes_of(ask(store_, [&] { return store_.list(url_); }));
  }

  /// A failure costs the names of one request.
  template <class T, class Request>
  void in_requests(const std::vector<T>& all, Request request) {
    for (auto begin = all.begin(); begin != all.end();) {
      if (is_stopped(store_.options())) throw StopRequested("the upload to {} was stopped", url_);
      const auto end = begin + std::min(all.end() - begin, store_.together());
      with_attempts(store_, [&] { request(std::vector<T>(begin, end)); });
      begin = end;
    }
  }

  void put(const Names& names, const Listing& listing) {
    std::vector<Put> files;
    for (const auto& name : names) {
      files.push_back({local_ / name, child(url_, listing.at(name).stored)});
      transfer_.bytes += static_cast<std::int64_t>(fs::file_size(local_ / name));
      ++transfer_.files;
    }
    in_requests(files, [&](const std::vector<Put>& some) {
      std::vector<fs::path> local;
      for (const auto& one : some) local.push_back(one.local);
      with_local(local, [&] { store_.put(some); });
    });
  }

  /// The second name holds the content while put() leaves nothing there for a moment.
  void put_text(const std::string& name, const std::string& text, bool replaces) {
    auto file = (fs::temp_directory_path() / "dimred-XXXXXX").string();
    const int descriptor = mkstemp(file.data());
    require_environment(descriptor >= 0, "[stores] cannot write {}", file);
    close(descriptor);
    const ScopeExit removed([&] { fs::remove(file); });
    const bool written = static_cast<bool>(std::ofstream(file) << text << std::flush);
    require_environment(written, "[stores] cannot write {}", file);
    const auto put = [&](const std::string& place) {
      with_attempts(store_, [&] { store_.put({{file, child(url_, place)}}); });
    };
    if (replaces && !store_.replaces()) put(second_name(name));
    put(name);
  }

  void commit(const Listing& listing) {
    const auto objects = sizes();
    for (const auto& [name, file] : listing)
      require_size(child(url_, file.stored), size_of(objects, file.stored), file.size);
    put_text(complete_name, listing_text(listing), std::exchange(replaces_complete_, true));
  }

  /// Removes files that earlier uploads of ours left and this one does not list.
  void clean(const std::set<std::string>& remains) {
    std::vector<Url> gone;
    for (const auto& [name, size] : sizes())
      if (remains.contains(name)) gone.push_back(child(url_, name));
    in_requests(gone, [&](const auto& some) { store_.remove(some); });
    with_attempts(store_, [&] { store_.remove({child(url_, incomplete_name)}); });
  }

  Store& store_;
  fs::path local_;
  Url url_;
  bool replaces_complete_ = false;
  Transfer transfer_;
};

Transfer upload_file(Store& store, const fs::path& local, const Url& url) {
  const auto size = static_cast<std::int64_t>(fs::file_size(local));
  with_attempts(store, [&] {
    store.put({{local, url}});
    const auto item = store.stat(url);
    require_size(url, item ? item->size : -1, size);
  });
  return {.files = 1, .bytes = size};
}

/// The listings' own names, and what their upload leaves when it is killed.
bool is_listing(const std::string& name) {
  return std::ranges::any_of(std::array{complete_name, incomplete_name}, [&](const char* listing) {
    return name == listing || name == second_name(listing) || name == formatted("{}.tmp", listing);
  });
}

/// A name that a run folder holds for a moment only, or for itself.
bool passes(const fs::path& name) {
  return std::ranges::any_of(name, [](const fs::path& part) {
    const auto ending = part.extension();
    return ending == ".tmp" || ending == ".part" || ending == ".of" ||
           part.string().starts_with('.');
  });
}

/// Each upload would send what the one before it has left.
void require_outside(const fs::path& local, const Url& url) {
  if (url.scheme != "file" || !fs::is_directory(local)) return;
  const auto below =
      fs::weakly_canonical(decoded_path(url)).lexically_relative(fs::canonical(local));
  require(*below.begin() == "..",
          "[stores] cannot copy a folder into itself, received {} and {}",
          local.string(),
          url);
}

/// Whether the bytes of a file are those with which `whole` begins.
bool begins(const fs::path& beginning, const fs::path& whole) {
  constexpr std::int64_t most = 1 << 20;
  const InputFile one(beginning), other(whole);
  if (one.size() > other.size()) return false;
  for (std::int64_t at = 0; at < one.size(); at += most) {
    const auto bytes = std::min(most, one.size() - at);
    if (one.part(at, bytes) != other.part(at, bytes)) return false;
  }
  return true;
}

/// A single file is written under its name and `ending` first, which a put that was killed has
/// left, or a user calls another file.
void require_free_temporary(const fs::path& local, const Url& url, const std::string& ending) {
  if (url.scheme != "file" || fs::is_directory(local)) return;
  const fs::path there = decoded_path(url), temporary = there.string() + ending;
  require(!fs::is_regular_file(fs::symlink_status(temporary)) || begins(temporary, local),
          "[stores] {} has the temporary name '{}', but another file has this temporary name; "
          "remove that file if an interrupted upload left it, or choose another place",
          there,
          temporary);
}

/// Refuses the files of a complete folder that an upload of `local` would replace or remove.
void require_none_replaced(const fs::path& local,
                           const Url& url,
                           const StoreOptions& options,
                           DigestMemory& memory) {
  const auto listing = complete_listing(*open_store(url, options), url);
  if (!listing) return;  // no reader takes files of it yet
  for (const auto& [name, file] : *listing) {
    const auto own = local / name;
    require(fs::is_regular_file(own),
            "[stores] the upload would remove {}, which is not in {}; choose another place or give "
            "--overwrite",
            child(url, name),
            local.string());
    require(std::cmp_equal(fs::file_size(own), file.size) &&
                remembered_digest(own, &memory) == file.digest,
            "[stores] {} exists already; choose another place or give --overwrite",
            child(url, name));
  }
}

/// Returns whether the listing of `folder` has the file at `url` with the content of `local`.
bool lists(const Listing& listing, const Url& folder, const Url& url, const fs::path& local) {
  if (!fs::is_regular_file(local)) return false;
  const auto path = decoded_path(url), above = decoded_path(folder);
  const auto file =
      listing.find(path.substr(above.ends_with('/') ? above.size() : above.size() + 1));
  return file != listing.end() && std::cmp_equal(fs::file_size(local), file->second.size) &&
         file_digest(local) == file->second.digest;
}

}  // namespace

Selection files_to_send(const fs::path& folder, Sending sending) {
  const auto walked = walk(folder);
  Selection selection{.left_out = std::ssize(walked.others)};
  for (const auto& name : walked.files) {
    if (is_listing(name) || is_own_cache(name)) continue;
    if (sending == Sending::run && passes(name)) continue;
    if (name.ends_with(".part.of") ||
        (name.ends_with(".part") && std::ranges::binary_search(walked.files, name + ".of"))) {
      ++selection.left_out;
    } else {
      selection.names.push_back(name);
    }
  }
  return selection;
}

void require_no_other_file(const fs::path& local,
                           const Url& url,
                           const StoreOptions& options,
                           DigestMemory& memory) {
  if (url.scheme != "file") return;
  if (fs::is_directory(local)) return require_none_replaced(local, url, options, memory);
  const fs::path there = decoded_path(url);
  if (!fs::is_regular_file(local) || !fs::is_regular_file(there) || fs::file_size(there) == 0)
    return;
  require(fs::file_size(there) == fs::file_size(local) && file_digest(there) == file_digest(local),
          "[stores] {} exists already; choose another place or give --overwrite",
          url);
}

void require_outside_listings(const fs::path& local, const Url& url, const StoreOptions& options) {
  if (url.path.empty() || url.path == "/") return;  // parent() of these is the place itself
  const auto store = open_store(url, options);
  auto folder = url;
  do {
    folder = parent(folder);
    const auto listing = complete_listing(*store, folder);
    require(!listing || lists(*listing, folder, url, local),
            "[stores] {} in the folder {} would be missing from the list {}; upload the whole "
            "folder again, or choose another URL",
            url,
            folder,
            complete_name);
  } while (url.scheme == "file" && folder.path != "/");  // elsewhere each look is a request
}

void require_writable(const Url& url) {
  const bool web = url.scheme.starts_with("http");
  require(!web, "[stores] cannot write to http or https, received {}", url);
  require(!is_pattern(url), "[stores] an output cannot be a pattern, received {}", url);
}

Transfer upload(
    Store& store, const fs::path& local, const Url& url, Sending sending, DigestMemory* memory) {
  if (!fs::is_directory(local)) return upload_file(store, local, url);
  return FolderUpload(store, local, url).run(files_to_send(local, sending), memory);
}

Transfer upload(const fs::path& local,
                const Url& url,
                const StoreOptions& options,
                Sending sending,
                DigestMemory* memory) {
  require_writable(url);
  const auto name = without_credentials(local.string());
  require(fs::exists(local), "[stores] no such file or folder: {}", name);
  require_outside(local, url);
  const auto store = open_store(url, options);
  require_free_temporary(local, url, store->temporary_ending());
  return upload(*store, local, url, sending, memory);
}

}  // namespace dimred::stores
