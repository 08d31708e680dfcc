#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dimred::data {

/// The largest ratio and surplus that a compressed file may ask for: images have a ratio of
/// about 5.
constexpr std::uint64_t largest_ratio = 100, largest_surplus = 64 << 20;
/// Deflate's largest ratio (zlib's technical notes: 1032:1); an announced size beyond it is a lie.
constexpr std::uint64_t deflate_ratio = 1032;

/// `file` itself, unless its content is gz: then its decompressed copy in the cache folder
/// (cache_folder of its own folder and `cache`), made once and made again when the file has
/// changed; random access needs it. The copy may have 100 times the file's bytes + 64 MB, images
/// being compressed already. Throws std::runtime_error("[gz] file: ...") when the file is damaged
/// or ends early, becomes larger than that, or there is no folder for the copy.
std::filesystem::path inflated(const std::filesystem::path& file,
                               const std::filesystem::path& cache);

/// Decompresses a file that may be changed: its content takes its place. `name` stands for it in
/// messages.
void inflate_in_place(const std::filesystem::path& file, const std::string& name);

/// Up to `count` bytes that the file, plain or gz, begins with. Throws as above.
std::vector<std::uint8_t> first_bytes(const std::filesystem::path& file, std::size_t count);

}  // namespace dimred::data
