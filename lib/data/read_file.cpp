#include "data/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "support/byte_order_mark.h"
#include "support/bytes.h"
#include "support/descriptor.h"
#include "support/errors.h"
#include "support/open_file.h"

namespace dimred::data {

void read_file(const std::string& name,
               const char* scope,
               std::vector<std::uint8_t>& bytes,
               std::int64_t most) {
  const auto path = path_text(name);
  const auto require_call = [&](bool holds) {
    require_environment(holds, "[{}] {}: {}", scope, path, holds ? "" : std::strerror(errno));
  };
  // A pipe is refused, not waited for.
  const Descriptor file(open_retrying(name, O_RDONLY | O_NONBLOCK));
  require_call(file >= 0);
  struct stat status {};
  require_call(::fstat(file, &status) == 0);
  require_environment(S_ISREG(status.st_mode), "[{}] {}: needs a regular file", scope, path);
  require_environment(status.st_size >= 1, "[{}] {}: the file is empty", scope, path);
  require_environment(status.st_size <= most,
                      "[{}] {}: needs at most {} bytes, received {}",
                      scope,
                      path,
                      most,
                      status.st_size);
  bytes.resize(status.st_size);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto count =
        retrying([&] { return ::read(file, bytes.data() + done, bytes.size() - done); });
    require_call(count >= 0);
    require_environment(
        count > 0, "[{}] {}: the file became shorter while dimred read it", scope, path);
    done += count;
  }
}

std::string read_text(const std::filesystem::path& path, const char* scope) {
  std::vector<std::uint8_t> bytes;
  read_file(path, scope, bytes);
  return std::string(without_byte_order_mark(text_of(bytes), formatted("[{}] {}", scope, path)));
}

}  // namespace dimred::data
