#include "data/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "data/paths.h"
#include "support/errors.h"
#include "support/retry.h"

namespace dimred::data {
namespace {

class OpenDescriptor {
 public:
  explicit OpenDescriptor(int number) : number_(number) {}
  ~OpenDescriptor() {
    if (number_ >= 0) ::close(number_);
  }
  OpenDescriptor(const OpenDescriptor&) = delete;
  OpenDescriptor& operator=(const OpenDescriptor&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

}  // namespace

void read_file(const std::string& name,
               const char* place,
               std::vector<std::uint8_t>& bytes,
               std::int64_t most) {
  const auto path = path_text(name);
  const auto require_call = [&](bool holds) {
    require_environment(holds, "[{}] {}: {}", place, path, holds ? "" : std::strerror(errno));
  };
  // A pipe is refused, not waited for.
  const OpenDescriptor file(
      retrying([&] { return ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
  require_call(file.get() >= 0);
  struct stat status {};
  require_call(::fstat(file.get(), &status) == 0);
  require_environment(S_ISREG(status.st_mode), "[{}] {}: needs a regular file", place, path);
  require_environment(status.st_size >= 1, "[{}] {}: the file is empty", place, path);
  require_environment(status.st_size <= most,
                      "[{}] {}: needs at most {} bytes, received {}",
                      place,
                      path,
                      most,
                      status.st_size);
  bytes.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto count =
        retrying([&] { return ::read(file.get(), bytes.data() + done, bytes.size() - done); });
    require_call(count >= 0);
    require_environment(
        count > 0, "[{}] {}: the file became shorter while it was read", place, path);
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace dimred::data
