#pragma once

#include <set>

#include "stores/store.h"

namespace dimred::stores {

/// The site's `hadoop fs`: it has the configuration, the encryption and the tickets.
class HadoopClient {
 public:
  explicit HadoopClient(const StoreOptions& options);

  /// Runs `words` ("-cat", ...), whose output goes to `sink`; false when it says that there is no
  /// such file or folder. `timeout`: seconds without output; 0: Hadoop's own. Throws StoreError
  /// that says what was not done (`doing` "read") with `url`.
  bool run(const Url& url,
           const char* doing,
           std::vector<std::string> words,
           double timeout,
           const Sink& sink) const;

  /// The same, with all that it prints; nullopt when there is no such file or folder.
  std::optional<std::string> ask(const Url& url,
                                 const char* doing,
                                 std::vector<std::string> words,
                                 double timeout) const;

 private:
  std::string program_;
  const std::atomic<bool>* stop_;
};

/// How the client is told of a remote file. Throws std::invalid_argument for letters that it takes
/// for a pattern.
std::string hadoop_address(const Url& url);

/// A line of `-ls -R` as a file below `folder`; nullopt for a folder's. Throws StoreError.
std::optional<Item> parse_hadoop_line(const std::string& line, const Url& folder);

}  // namespace dimred::stores
