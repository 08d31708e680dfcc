#include "data/base64.h"
#include "data/record_readers.h"
#include "tests/fuzz/fuzz.h"

std::vector<std::string> dimred::fuzz::seeds() {
  const auto image = small_png();
  const auto text =
      data::to_base64({reinterpret_cast<const std::uint8_t*>(image.data()), image.size()});
  return {text + "\t5\n" + text + "\t6\r\n\n" + text + "\t-7",
          "12\t" + text + "\n3\t" + text + '\n'};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  const auto scan = data::base64_format.scan({data, size});
  std::vector<std::uint8_t> bytes;
  for (const auto& entry : scan.entries) {
    // The records that the scan found can be decoded.
    const std::string_view text(reinterpret_cast<const char*>(data) + entry.offset, entry.size);
    if (data::from_base64(text, bytes)) __builtin_trap();
    if (data::to_base64(bytes) != text) __builtin_trap();
  }
  return 0;
}
