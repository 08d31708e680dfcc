#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/options.h"

// Options that name a file may name it by a URL. This room knows no stores: a caller that does
// says, once a table has read all its options, which local path stands for it.
namespace dimred {

/// nullopt: the text stays as it is. Throws std::invalid_argument for a place that cannot be.
using Locate = std::function<std::optional<std::filesystem::path>(const Option& row,
                                                                  const OptionTable& table)>;

/// For the tables of this process; without one a URL is refused.
void set_locate(Locate locate);

/// Whether `text` begins like scheme://.
bool looks_like_url(std::string_view text);

/// scheme://[user:password@]authority/path[?query], in its parts as they were written.
struct Url {
  std::string scheme;     // in lower case
  std::string user;       // "name:password"; never shown or written
  std::string authority;  // host:port or bucket
  std::string path;       // from its first slash on
  std::string query;      // without '?': options of the endpoint, or a signature
};

/// The parts of a text that looks like a URL.
Url split_url(std::string_view text);

/// Whether an '@' behind the host may be the one that ends a password: one with '/' or '?' in it
/// looks like a host, a port and a path with '@'.
bool hides_password(const Url& url);

/// A text with a URL, wherever it begins, as files and messages may hold it: without
/// user:password@, and over HTTP without the query, which may be a signature; its scheme alone
/// where nobody knows what is the password. Other texts stay.
std::string without_credentials(std::string_view text);

/// The text of a path option's field: of a local path that stands for a URL, the URL.
std::string location_text(const std::filesystem::path& path);

/// Gives every row whose text is a URL its local path, except rows that wait for an adopted file.
/// Each URL is located once in a process.
void locate(std::vector<Option>& rows, const OptionTable& table);

}  // namespace dimred
