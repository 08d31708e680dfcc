#include "stores/upload_plan.h"

#include <sys/stat.h>

#include <algorithm>

#include "stores/attempts.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

std::string digest_of(const fs::path& file, DigestMemory* memory) {
  if (memory == nullptr) return digest_of_file(file);
  struct stat state {};
  require_environment(::stat(file.c_str(), &state) == 0, "[stores] cannot read {}", file.string());
  auto& digest = (*memory)[formatted("{} {} {} {}.{}",
                                     state.st_dev,
                                     state.st_ino,
                                     state.st_size,
                                     state.st_mtim.tv_sec,
                                     state.st_mtim.tv_nsec)];
  if (digest.empty()) digest = digest_of_file(file);
  return digest;
}

const ListedFile* at(const Listing& listing, const std::string& name) {
  const auto found = listing.find(name);
  return found == listing.end() ? nullptr : &found->second;
}

std::string beside(const std::string& name, const ListedFile& file) {
  return formatted("{}.{}", name, file.digest.substr(0, 12));
}

bool same(const Listing& a, const Listing& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.digest == other.second.digest &&
           one.second.stored == other.second.stored;
  });
}

Before look_once(Store& store, const Url& url, const StoreOptions& options) {
  Before before;
  std::vector<Item> items;
  with_attempts(options, [&] { items = store.list(url); });
  const auto read = [&](const char* name) -> std::optional<Listing> {
    const auto item = listing_among(items, name);
    if (!item) return {};
    return read_listing(store, child(url, item->name), *item, options);
  };
  before.intended = read(incomplete_name);
  const auto complete = read(complete_name);
  if (complete) before.complete = *complete;
  const auto ending = store.temporary_ending();
  const bool empty = std::ranges::all_of(items, [&](const Item& item) {
    return item.name == incomplete_name + ending;  // killed while it was put
  });
  require(complete || before.intended || empty,
          "[stores] {} holds files that are no upload of ours; choose another place",
          shown(url));
  for (const auto& item : items) before.objects[item.name] = item.size;
  return before;
}

}  // namespace

Before look_at(Store& store, const Url& url, const StoreOptions& options) {
  return looking_again([&] { return look_once(store, url, options); });
}

void require_names(const Store& store, const Url& url, const std::vector<std::string>& names) {
  const auto ending = store.temporary_ending();
  for (const auto& name : names) {
    require(is_inside(name) && utf8_text(name) == name,
            "[stores] a name in a listing is UTF-8 without control characters, received {}",
            utf8_text(printable(name)));
    store.require_name(child(url, name));
    const auto temporary = name + ending;
    require(ending.empty() || !std::ranges::binary_search(names, temporary),
            "[stores] {} is put as {}, which is the name of another file; rename that",
            shown(child(url, name)),
            temporary);
  }
}

void require_free(const Store& store,
                  const Url& url,
                  const Before& before,
                  const std::vector<std::string>& names) {
  std::set<std::string> ours;
  const auto add = [&](const Listing& listing) {
    for (const auto& [name, file] : listing) ours.insert({name, file.stored});
  };
  add(before.complete);
  if (before.intended) add(*before.intended);
  const auto ending = store.temporary_ending();
  for (const auto& name : names) {
    require(
        !before.objects.contains(name) || ours.contains(name),
        "[stores] {} is there already and of no upload of ours; remove it or choose another place",
        shown(child(url, name)));
    require(ending.empty() || at(before.complete, name + ending) == nullptr,
            "[stores] {} is put as {}, which is a file of the earlier upload; choose another place",
            shown(child(url, name)),
            name + ending);
  }
}

Listing plan_of(const Before& before,
                const fs::path& local,
                const std::vector<std::string>& names,
                DigestMemory* memory) {
  Listing plan;
  for (const auto& name : names) {
    ListedFile file{static_cast<std::int64_t>(fs::file_size(local / name)),
                    digest_of(local / name, memory),
                    name};
    const auto* now = at(before.complete, name);
    const auto* meant = before.intended ? at(*before.intended, name) : nullptr;
    if (now != nullptr && now->digest == file.digest) {
      file.stored = now->stored;
    } else if (meant != nullptr && meant->digest == file.digest) {
      file.stored = meant->stored;
    } else if (now != nullptr || meant != nullptr) {
      file.stored = beside(name, file);
    }
    plan.emplace(name, std::move(file));
  }
  return plan;
}

bool is_there(const Before& before, const std::string& name, const ListedFile& file) {
  const auto is = [&](const Listing& listing) {
    const auto* found = at(listing, name);
    return found != nullptr && found->digest == file.digest && found->stored == file.stored;
  };
  const auto object = before.objects.find(file.stored);
  return object != before.objects.end() && object->second == file.size &&
         (is(before.complete) || (before.intended && is(*before.intended)));
}

bool is_tidy(const Listing& listing) {
  return std::ranges::all_of(listing,
                             [](const auto& one) { return one.second.stored == one.first; });
}

bool is_done(const Before& before, const Listing& plan) {
  return !before.intended && same(plan, before.complete) && is_tidy(plan) &&
         std::ranges::all_of(
             plan, [&](const auto& one) { return is_there(before, one.first, one.second); });
}

Listing intention(const Listing& plan, const Before& before) {
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

std::set<std::string> remains(const Before& before,
                              const Listing& listing,
                              const std::string& ending) {
  std::set<std::string> ours{second_name(complete_name), second_name(incomplete_name)};
  const auto add = [&](const Listing& one) {
    for (const auto& [name, file] : one) ours.insert({name, file.stored});
  };
  add(before.complete);
  if (before.intended) add(*before.intended);
  for (const auto& [name, file] : listing) ours.insert({name, beside(name, file)});
  if (!ending.empty()) {
    const auto names = ours;
    for (const auto& name : names) ours.insert(name + ending);
    for (const auto* name : {complete_name, incomplete_name}) ours.insert(name + ending);
  }
  for (const auto& [name, file] : listing) ours.erase(file.stored);
  return ours;
}

}  // namespace dimred::stores
