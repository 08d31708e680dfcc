#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "support/url.h"

namespace dimred::stores {

/// A Url here: its scheme is file, http, https, hdfs, s3, gs or oss; only file and hdfs may do
/// without an authority; the path is empty or without a slash at its end, but for "/" itself.
using dimred::Url;

/// Throws std::invalid_argument for an unknown scheme (names the nearest), a missing host or
/// bucket, a host or port that cannot be, characters that no URL has, and a password that is not
/// told from the path.
Url parse_url(std::string_view text);

/// The URL as people and files may see it: without user, password, and the values of the query.
std::string shown(const Url& url);

/// All of it, for the library that takes the request; never for a message.
std::string whole(const Url& url);

/// The place without user and password, as in a cache and a config.toml.
std::string identity(const Url& url);

/// The object `name` ("a/b.h5") below the folder `url`; percent-encoded where the scheme wants it.
Url child(const Url& url, std::string_view name);

/// The last part of the path, decoded; the authority where the path is empty.
std::string last_name(const Url& url);

/// The folder that `url` lies in.
Url parent(const Url& url);

/// The path as its store means it: percent-decoded for file and http(s), as it is for the others,
/// whose own tools do not decode either.
std::string decoded_path(const Url& url);

/// "%20" as " ".
std::string percent_decoded(std::string_view text);

}  // namespace dimred::stores

namespace dimred {
/// As stores::shown() says it.
std::ostream& operator<<(std::ostream& out, const Url& url);
}  // namespace dimred
