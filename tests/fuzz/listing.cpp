#include "stores/listing.h"

#include "tests/fuzz/fuzz.h"

std::vector<std::string> dimred::fuzz::seeds() {
  const std::string digest(32, 'a');
  return {stores::listing_text({{"a.bin", {10, digest, "a.bin"}}, {"b/c", {0, digest, "b/c.12"}}}),
          R"({"format": "dimred listing 1", "files": {"a": {"size": 102E81, "xxh3_128": ")" +
              digest + R"("}}})"};
}

// All that it lets pass lies inside the folder, and is what its own text says.
int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  fuzz::bear_errors([&] {
    const auto listing =
        stores::parse_listing({reinterpret_cast<const char*>(data), size}, "input");
    for (const auto& [name, file] : listing)
      if (!stores::is_inside(name) || !stores::is_inside(file.stored)) __builtin_trap();
    if (stores::parse_listing(stores::listing_text(listing), "own").size() != listing.size())
      __builtin_trap();
  });
  return 0;
}
