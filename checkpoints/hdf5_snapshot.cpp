#include "checkpoints/hdf5_snapshot.h"

#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <span>
#include <utility>

#include "checkpoints/weight_digests.h"
#include "support/ceiling.h"
#include "support/errors.h"

namespace dimred::checkpoints {
namespace {

// The library of Debian is built without thread safety.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Holds the library for one caller; its own error printing is off meanwhile.
class Hdf5Library {
 public:
  Hdf5Library() : lock_(library_mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &printer_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Hdf5Library() { H5Eset_auto2(H5E_DEFAULT, printer_, data_); }
  Hdf5Library(const Hdf5Library&) = delete;
  Hdf5Library& operator=(const Hdf5Library&) = delete;

 private:
  std::scoped_lock<std::mutex> lock_;
  H5E_auto2_t printer_ = nullptr;
  void* data_ = nullptr;
};

herr_t keep_innermost(unsigned /*depth*/, const H5E_error2_t* error, void* text) {
  if (error->desc != nullptr) *static_cast<std::string*>(text) = error->desc;
  return 0;
}

/// Passes a non-negative result on, else throws with the library's innermost reason.
template <class Result>
Result checked(Result result, const char* call) {
  if (result >= 0) return result;
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_innermost, &reason);
  fail_environment("[hdf5] {} failed: {}", call, reason);
}

/// An HDF5 identifier that closes itself.
class Handle {
 public:
  Handle(hid_t id, const char* call) : id_(checked(id, call)) {}
  ~Handle() {
    if (id_ >= 0) H5Idec_ref(id_);  // closes whatever it stands for
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Handle& operator=(Handle&&) = delete;
  operator hid_t() const { return id_; }  // NOLINT: stands for the identifier in every call

 private:
  hid_t id_;
};

/// A file that is open already, as the library's file drivers see one: what the library reads is
/// what was verified, wherever the path leads meanwhile.
struct OpenedFile : H5FD_t {
  const InputFile* file = nullptr;
  haddr_t end = 0;  // of the addresses that the library takes
};

/// Returns the file that the access properties hold; nullptr for those of another file, which the
/// library opens for a link.
H5FD_t* opened_file(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*most*/) {
  const auto* const opened = static_cast<OpenedFile* const*>(H5Pget_driver_info(access));
  return opened == nullptr ? nullptr : *opened;
}

/// Reads zeros behind the end of the file, as the library's own drivers do.
herr_t read_opened(H5FD_t* opened,
                   H5FD_mem_t /*type*/,
                   hid_t /*transfer*/,
                   haddr_t begin,
                   std::size_t size,
                   void* out) {
  const auto& file = *static_cast<const OpenedFile*>(opened)->file;
  const std::span bytes(static_cast<std::byte*>(out), size);
  const auto rest = static_cast<haddr_t>(file.size()) - std::min<haddr_t>(begin, file.size());
  const auto there = std::min<haddr_t>(size, rest);
  std::ranges::fill(bytes.subspan(there), std::byte());
  try {
    file.read(static_cast<std::int64_t>(begin), bytes.first(there));
    return 0;
  } catch (const std::exception& error) {  // not through the library, which is C
    H5Epush2(H5E_DEFAULT,
             __FILE__,
             __func__,
             __LINE__,
             H5E_ERR_CLS,
             H5E_IO,
             H5E_READERROR,
             "%s",
             error.what());
    return -1;
  }
}

Handle opened_file_driver() {
  H5FD_class_t driver{};
#ifdef H5FD_CLASS_VERSION  // since HDF5 1.14
  driver.version = H5FD_CLASS_VERSION;
  driver.value = 511;  // the last of those that nobody registers
#endif
  driver.name = "opened file";
  driver.maxaddr = std::numeric_limits<std::int64_t>::max();
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(OpenedFile*);
  driver.open = opened_file;
  driver.close = [](H5FD_t*) -> herr_t { return 0; };  // its owner closes it
  driver.get_eoa = [](const H5FD_t* opened, H5FD_mem_t) {
    return static_cast<const OpenedFile*>(opened)->end;
  };
  driver.set_eoa = [](H5FD_t* opened, H5FD_mem_t, haddr_t end) -> herr_t {
    static_cast<OpenedFile*>(opened)->end = end;
    return 0;
  };
  driver.get_eof = [](const H5FD_t* opened, H5FD_mem_t) -> haddr_t {
    return static_cast<const OpenedFile*>(opened)->file->size();
  };
  driver.read = read_opened;
  driver.write = [](H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) -> herr_t {
    return -1;
  };
  return {H5FDregister(&driver), "H5FDregister"};
}

Handle string_type(std::size_t length) {
  Handle type(H5Tcopy(H5T_C_S1), "H5Tcopy");
  checked(H5Tset_size(type, length), "H5Tset_size");
  checked(H5Tset_strpad(type, H5T_STR_NULLPAD), "H5Tset_strpad");
  checked(H5Tset_cset(type, H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

Handle scalar_space() { return {H5Screate(H5S_SCALAR), "H5Screate"}; }

void write_attribute(hid_t file, const char* name, hid_t type, const void* value) {
  const Handle space = scalar_space();
  const Handle attribute(H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT),
                         "H5Acreate");
  checked(H5Awrite(attribute, type, value), "H5Awrite");
}

void write_dataset(hid_t file, const char* name, hid_t type, hid_t space, const void* values) {
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate");
  // Contiguous, so that columns can be read at an offset; no time stamps: equal bytes for equal
  // data.
  checked(H5Pset_layout(properties, H5D_CONTIGUOUS), "H5Pset_layout");
  checked(H5Pset_obj_track_times(properties, false), "H5Pset_obj_track_times");
  const Handle dataset(H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT),
                       "H5Dcreate");
  checked(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), "H5Dwrite");
}

constexpr const char* digests_name = "weights_xxh3";

template <class T>
void write_vector(hid_t file, const char* name, hid_t type, const std::vector<T>& values) {
  const hsize_t size = values.size();
  const Handle space(H5Screate_simple(1, &size, nullptr), "H5Screate_simple");
  write_dataset(file, name, type, space, values.data());
}

void write_text(hid_t file, const char* name, const std::string& text) {
  write_dataset(file, name, string_type(text.size()), scalar_space(), text.data());
}

void write_contents(hid_t file, const Snapshot& snapshot) {
  write_vector(file, "weights", H5T_IEEE_F32LE, snapshot.weights);
  write_vector(file, "buffers", H5T_IEEE_F32LE, snapshot.buffers);
  write_vector(file, "counters", H5T_STD_I64LE, snapshot.counters);
  write_text(file, "layout", snapshot.layout_json);
  if (!snapshot.run_json.empty()) write_text(file, "run", snapshot.run_json);
  write_vector(file, digests_name, H5T_STD_U64LE, weight_digests(snapshot.weights));
  write_attribute(file, "epoch", H5T_STD_I64LE, &snapshot.epoch);
  write_attribute(file, "step", H5T_STD_I64LE, &snapshot.step);
  write_attribute(file, "train_loss", H5T_IEEE_F64LE, &snapshot.train_loss);
  write_attribute(file, "validation_loss", H5T_IEEE_F64LE, &snapshot.validation_loss);
  write_attribute(
      file, "layout_hash", string_type(snapshot.layout_hash.size()), snapshot.layout_hash.data());
}

template <class T>
T read_attribute(hid_t file, const char* name, hid_t type) {
  const Handle attribute(H5Aopen(file, name, H5P_DEFAULT), name);
  const Handle space(H5Aget_space(attribute), "H5Aget_space");
  require_environment(checked(H5Sget_simple_extent_npoints(space), name) == 1,
                      "[hdf5] attribute '{}' needs one value",
                      name);
  T value{};
  checked(H5Aread(attribute, type, &value), name);
  return value;
}

std::string read_text_attribute(hid_t file, const char* name) {
  const Handle attribute(H5Aopen(file, name, H5P_DEFAULT), name);
  const Handle type(H5Aget_type(attribute), "H5Aget_type");
  const Handle space(H5Aget_space(attribute), "H5Aget_space");
  require_environment(H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
                          H5Sget_simple_extent_npoints(space) == 1,
                      "[hdf5] attribute '{}' needs one string of fixed length",
                      name);
  const auto size = H5Tget_size(type);
  require_environment(
      size <= 64 << 10, "[hdf5] attribute '{}' needs a size of at most 64 KiB", name);
  std::string text(size, '\0');
  checked(H5Aread(attribute, type, text.data()), name);
  return text;
}

/// A soft or external link could lead into another file, or to a pipe that nobody writes to.
void require_hard_link(hid_t file, const char* name) {
  H5L_info_t link{};
  checked(H5Lget_info(file, name, &link, H5P_DEFAULT), name);
  require_environment(
      link.type == H5L_TYPE_HARD,
      "[hdf5] '{}' is a soft or external link, but a snapshot needs the dataset itself",
      name);
}

/// Checks that `count` values of `type` lie without gaps inside the file.
DatasetExtent extent_of(hid_t file, const char* name, hid_t type, std::int64_t file_size) {
  require_hard_link(file, name);
  const Handle dataset(H5Dopen2(file, name, H5P_DEFAULT), name);
  const Handle properties(H5Dget_create_plist(dataset), "H5Dget_create_plist");
  // First: to tell a virtual dataset's space the library opens the files that it is made of.
  require_environment(
      H5Pget_layout(properties) == H5D_CONTIGUOUS && H5Pget_external_count(properties) == 0,
      "[hdf5] dataset '{}' needs a contiguous layout inside this file",
      name);
  const Handle actual(H5Dget_type(dataset), "H5Dget_type");
  const Handle space(H5Dget_space(dataset), "H5Dget_space");
  const bool text = type == H5T_C_S1;
  const bool type_fits = text
                             ? H5Tget_class(actual) == H5T_STRING && H5Tis_variable_str(actual) == 0
                             : H5Tequal(actual, type) > 0;
  const bool shape_fits = H5Sget_simple_extent_ndims(space) == (text ? 0 : 1);
  require_environment(type_fits && shape_fits,
                      "[hdf5] dataset '{}' has another type or shape than a snapshot needs",
                      name);
  const std::int64_t item = text ? 1 : H5Tget_size(actual);
  const std::int64_t count =
      text ? H5Tget_size(actual) : checked(H5Sget_simple_extent_npoints(space), name);
  if (count == 0) return {};
  const haddr_t offset = H5Dget_offset(dataset);
  require_environment(offset != HADDR_UNDEF && std::cmp_less_equal(offset, file_size) &&
                          count <= (file_size - static_cast<std::int64_t>(offset)) / item,
                      "[hdf5] dataset '{}' reaches beyond the end of the file",
                      name);
  return {static_cast<std::int64_t>(offset), count};
}

std::string dataset_text(hid_t contents, const char* name, const InputFile& file) {
  const auto text = extent_of(contents, name, H5T_C_S1, file.size());
  return file.part(text.offset, text.count);
}

/// Returns the offset of the digests of this number of weights.
std::int64_t locate_digests(hid_t contents, std::int64_t weights, const InputFile& file) {
  const auto digests = extent_of(contents, digests_name, H5T_STD_U64LE, file.size());
  const auto blocks = ceiling(weights, weights_per_digest);
  require_environment(digests.count == blocks,
                      "needs {} digests of the weights, received {}",
                      blocks,
                      digests.count);
  return digests.offset;
}

bool has_dataset(hid_t contents, const char* name) {
  return checked(H5Lexists(contents, name, H5P_DEFAULT), "H5Lexists") > 0;
}

}  // namespace

Hdf5Image hdf5_image(const Snapshot& snapshot) {
  const Hdf5Library library;
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate");
  checked(H5Pset_userblock(creation, user_block_bytes), "H5Pset_userblock");
  // In memory: the library never meets a full disk, which it handles badly when it closes a file.
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  checked(H5Pset_fapl_core(access, 1 << 20, false), "H5Pset_fapl_core");
  const Handle file(H5Fcreate("snapshot in memory", H5F_ACC_TRUNC, creation, access), "H5Fcreate");
  write_contents(file, snapshot);
  checked(H5Fflush(file, H5F_SCOPE_GLOBAL), "H5Fflush");
  Hdf5Image image;
  auto& bytes = image.bytes;
  bytes.resize(checked(H5Fget_file_image(file, nullptr, 0), "H5Fget_file_image"));
  checked(H5Fget_file_image(file, bytes.data(), bytes.size()), "H5Fget_file_image");
  // The library leaves the user block out of an image, but its addresses count it.
  check(std::memcmp(bytes.data(), "\x89HDF", 4) == 0, "an HDF5 image starts at its superblock");
  const auto file_size = static_cast<std::int64_t>(user_block_bytes + bytes.size());
  image.weights = extent_of(file, "weights", H5T_IEEE_F32LE, file_size);
  return image;
}

SnapshotInfo read_hdf5(const InputFile& file) {
  const Hdf5Library library;
  const Handle driver = opened_file_driver();
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  OpenedFile opened{{}, &file};
  OpenedFile* const place = &opened;
  checked(H5Pset_driver(access, driver, static_cast<const void*>(&place)), "H5Pset_driver");
  const Handle contents(H5Fopen(file.path().c_str(), H5F_ACC_RDONLY, access), "H5Fopen");
  const auto weights = extent_of(contents, "weights", H5T_IEEE_F32LE, file.size());
  const auto buffers = extent_of(contents, "buffers", H5T_IEEE_F32LE, file.size());
  const auto counters = extent_of(contents, "counters", H5T_STD_I64LE, file.size());
  SnapshotInfo info;
  info.parameters = weights.count;
  info.weights_offset = weights.offset;
  info.buffers_offset = buffers.offset;
  info.buffer_count = buffers.count;
  info.counters_offset = counters.offset;
  info.counter_count = counters.count;
  info.epoch = read_attribute<std::int64_t>(contents, "epoch", H5T_NATIVE_INT64);
  info.step = read_attribute<std::int64_t>(contents, "step", H5T_NATIVE_INT64);
  info.train_loss = read_attribute<double>(contents, "train_loss", H5T_NATIVE_DOUBLE);
  info.validation_loss = read_attribute<double>(contents, "validation_loss", H5T_NATIVE_DOUBLE);
  info.layout_hash = read_text_attribute(contents, "layout_hash");
  info.layout_json = dataset_text(contents, "layout", file);
  if (has_dataset(contents, "run")) info.run_json = dataset_text(contents, "run", file);
  if (has_dataset(contents, digests_name))
    info.digests_offset = locate_digests(contents, info.parameters, file);
  return info;
}

}  // namespace dimred::checkpoints
