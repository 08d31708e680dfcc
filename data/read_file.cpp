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

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
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
    require_environment(holds, place, path, ": ", holds ? "" : std::strerror(errno));
  };
  // A pipe is refused, not waited for.
  const Descriptor file(
      retrying([&] { return ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
  require_call(file.get() >= 0);
  struct stat status {};
  require_call(::fstat(file.get(), &status) == 0);
  require_environment(S_ISREG(status.st_mode), place, path, ": needs a regular file");
  require_environment(status.st_size >= 1, place, path, ": the file is empty");
  require_environment(status.st_size <= most,
                      place,
                      path,
                      ": needs at most ",
                      most,
                      " bytes, received ",
                      status.st_size);
  bytes.resize(static_cast<std::size_t>(status.st_size));
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto count =
        retrying([&] { return ::read(file.get(), bytes.data() + done, bytes.size() - done); });
    require_call(count >= 0);
    require_environment(count > 0, place, path, ": the file became shorter while it was read");
    done += static_cast<std::size_t>(count);
  }
}

}  // namespace dimred::data
