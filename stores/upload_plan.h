#pragma once

#include <set>

#include "stores/listing.h"
#include "stores/upload.h"

namespace dimred::stores {

/// What an upload finds at its place.
struct Before {
  Listing complete;                             // what whoever downloads now gets
  std::optional<Listing> intended;              // of an upload that has not ended
  std::map<std::string, std::int64_t> objects;  // all that is there, with sizes
};

/// Throws std::invalid_argument where something else lies.
Before look_at(Store& store, const Url& url, const StoreOptions& options);

/// Throws std::invalid_argument, before anything is read or sent, for names of files that no reader
/// would take from a listing, that the store does not have, or that it overwrites while another of
/// them is put.
void require_names(const Store& store, const Url& url, const std::vector<std::string>& names);

/// The same for names under which others' files lie there, and where putting one would overwrite
/// a file that whoever downloads now gets.
void require_free(const Store& store,
                  const Url& url,
                  const Before& before,
                  const std::vector<std::string>& names);

/// Under which names the files of `local` shall lie there: one that an object of other bytes has,
/// or may have, is not used for new ones.
Listing plan_of(const Before& before,
                const std::filesystem::path& local,
                const std::vector<std::string>& names,
                DigestMemory* memory);

/// Whether the listed object is there already, of these bytes.
bool is_there(const Before& before, const std::string& name, const ListedFile& file);

/// Whether the place holds the plan and nothing is to be done.
bool is_done(const Before& before, const Listing& plan);

/// Whether every file has its own name there.
bool is_tidy(const Listing& listing);

/// What is meant to be there, and what is there of ours and will go: whoever takes this upload up
/// after us can clear it away.
Listing intention(const Listing& plan, const Before& before);

/// Names of what uploads of ours may have left and `listing` does not hold; `ending`: of the
/// store's temporary names.
std::set<std::string> remains(const Before& before,
                              const Listing& listing,
                              const std::string& ending);

}  // namespace dimred::stores
