#include "stores/options.h"

#include "support/errors.h"
#include "support/text.h"

namespace dimred::stores {

void add_options(OptionTable& table, StoreOptions& options, bool uploads) {
  table.group("Remote stores");
  table
      .add("store_cache",
           &options.cache,
           "folder for downloads, and for outputs before their upload (default: "
           "$XDG_CACHE_HOME/dimred/stores)")
      .of_this_machine()
      .may_change();
  table
      .add("store_timeout",
           &options.timeout,
           "fail a request after X seconds without progress",
           at_least(1))
      .may_change();
  table
      .add("store_attempts",
           &options.attempts,
           "number of attempts for each request to a store",
           between(1, 100))
      .may_change();
  table
      .add("store_first_wait",
           &options.first_wait,
           "seconds before the second attempt of a request to a remote store; each further wait is "
           "twice as long",
           at_least(0))
      .may_change();
  table
      .add("store_longest_wait",
           &options.longest_wait,
           "longest wait between two attempts, in seconds",
           at_least(0))
      .may_change();
  table.add("store_endpoint",
            &options.endpoint,
            "host for oss:// URLs without a host (default: $OSS_ENDPOINT)");
  table
      .add("store_hadoop",
           &options.hadoop,
           "program `hadoop` for hdfs:// URLs (default: from $HADOOP_HOME/bin, else from $PATH)")
      .of_this_machine()
      .may_change();
  if (uploads) {
    table
        .add("upload_checkpoints",
             &options.upload_checkpoints,
             "upload each checkpoint during the run, not only at the end; needs a URL as --output")
        .may_change();
  }
}

std::filesystem::path cache_folder(const StoreOptions& options) {
  if (!options.cache.empty()) return options.cache;
  const std::filesystem::path chosen = environment_text("XDG_CACHE_HOME");
  if (chosen.is_absolute()) return chosen / "dimred" / "stores";
  const std::filesystem::path home = environment_text("HOME");
  require_environment(
      home.is_absolute(),
      "[stores] neither $XDG_CACHE_HOME nor $HOME is set; give --store_cache FOLDER");
  return home / ".cache" / "dimred" / "stores";
}

}  // namespace dimred::stores
