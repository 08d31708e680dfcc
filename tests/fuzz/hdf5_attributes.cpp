#include <hdf5.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "checkpoints/hdf5_snapshot.h"
#include "tests/fuzz/fuzz.h"

// Sound HDF5 files whose attributes are not a snapshot's. Damage of the file's own structure is not
// drawn: libhdf5 reads that, beyond the bound on memory, and a snapshot's digest is verified
// before.
namespace {

using namespace dimred;

/// The input as a sequence of decisions; zeros behind its end.
struct Decisions {
  std::span<const std::uint8_t> rest;

  std::size_t below(std::size_t count) { return bytes(1)[0] % count; }
  std::vector<std::uint8_t> bytes(std::size_t count) {
    std::vector<std::uint8_t> taken(count);
    const auto first = rest.first(std::min(count, rest.size()));
    std::ranges::copy(first, taken.begin());
    rest = rest.subspan(first.size());
    return taken;
  }
};

/// A snapshot of three weights behind an empty user block.
const std::vector<std::byte>& sound_file() {
  static const std::vector<std::byte> file = [] {
    const auto image = checkpoints::hdf5_image({.weights = {1, 2, 3},
                                                .buffers = {4},
                                                .counters = {5},
                                                .layout_json = "{}",
                                                .layout_hash = "abc",
                                                .run_json = "{}"})
                           .bytes;
    std::vector<std::byte> whole(checkpoints::user_block_bytes);
    whole.insert(whole.end(), image.begin(), image.end());
    return whole;
  }();
  return file;
}

hid_t drawn_type(Decisions& input) {
  const std::array numbers{
      H5T_STD_I8LE, H5T_STD_U64BE, H5T_STD_I64LE, H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_STD_B64LE};
  const auto kind = input.below(6);
  if (kind == 0) return H5Tcopy(numbers[input.below(numbers.size())]);
  if (kind == 1) {
    const hsize_t count = 1 + input.below(64);
    return H5Tarray_create2(numbers[input.below(numbers.size())], 1, &count);
  }
  if (kind == 2) return H5Tvlen_create(numbers[input.below(numbers.size())]);
  if (kind == 3) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(type, "a", 0, H5T_STD_I64LE);
    return type;
  }
  const hid_t type = kind == 4 ? H5Tcopy(H5T_C_S1) : H5Tcreate(H5T_OPAQUE, 1);
  H5Tset_size(type,
              kind == 4 && input.below(4) == 0 ? H5T_VARIABLE
                                               : 1 + 256 * input.below(256) + input.below(256));
  return type;
}

hid_t drawn_space(Decisions& input) {
  const auto kind = input.below(4);
  if (kind < 2) return H5Screate(kind == 0 ? H5S_SCALAR : H5S_NULL);
  const std::array<hsize_t, 2> sizes{input.below(3), 1 + input.below(2)};
  return H5Screate_simple(kind - 1, sizes.data(), nullptr);
}

void replace_attribute(hid_t file, Decisions& input) {
  const std::array names{"epoch", "step", "train_loss", "validation_loss", "layout_hash"};
  const char* name = names[input.below(names.size())];
  H5Adelete(file, name);
  if (input.below(16) == 0) return;
  const hid_t type = drawn_type(input), space = drawn_space(input);
  const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  const auto kind = H5Tget_class(type);
  const bool pointers = kind == H5T_VLEN || (kind == H5T_STRING && H5Tis_variable_str(type) > 0);
  if (attribute >= 0 && !pointers) {
    const auto values =
        input.bytes(H5Tget_size(type) * std::max<hssize_t>(1, H5Sget_simple_extent_npoints(space)));
    H5Awrite(attribute, type, values.data());
  }
  H5Aclose(attribute);
  H5Sclose(space);
  H5Tclose(type);
}

std::vector<std::uint8_t> file_of(Decisions input) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_core(access, 1 << 12, false);
  auto start = sound_file();
  H5Pset_file_image(access, start.data(), start.size());
  const hid_t file = H5Fopen("in memory", H5F_ACC_RDWR, access);
  while (!input.rest.empty()) replace_attribute(file, input);
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  std::vector<std::uint8_t> whole(checkpoints::user_block_bytes +
                                  H5Fget_file_image(file, nullptr, 0));
  H5Fget_file_image(file,
                    whole.data() + checkpoints::user_block_bytes,
                    whole.size() - checkpoints::user_block_bytes);
  H5Fclose(file);
  H5Pclose(access);
  return whole;
}

}  // namespace

std::vector<std::string> dimred::fuzz::seeds() {
  return {"",
          {0, 1, 0, 2, 0, 7},
          {4, 1, 4, 1, 0, 3, 0, 'a', 'b'},
          {2, 1, 0, 4, 2, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8}};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  static const bool quiet = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
  if (!quiet) std::abort();
  const auto file = file_of({{data, size}});
  fuzz::bear_errors([&] {
    const auto info = checkpoints::read_hdf5(InputFile(file_with(file)));
    if (info.parameters != 3 || info.layout_hash.size() > 64 << 10) __builtin_trap();
  });
  return 0;
}
