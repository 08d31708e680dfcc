#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace dimred {

/// An open file or pipe that closes itself; < 0: none.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  operator int() const { return number_; }  // NOLINT: stands for the number in every call

  /// Returns close(2)'s result; 0 without a descriptor.
  int close() { return number_ < 0 ? 0 : ::close(std::exchange(number_, -1)); }

 private:
  int number_;
};

/// The system call `call`, made again for as long as a signal interrupts it; what it returned last.
/// Disks do not interrupt, network file systems may.
template <class Call>
auto retrying(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace dimred
