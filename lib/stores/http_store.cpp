#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <exception>

#include "stores/store.h"
#include "stores/upload.h"

namespace dimred::stores {
namespace {

/// One response: what arrives goes to the sink, unless it is an error's page.
struct Response {
  CURL* curl = nullptr;
  const StoreOptions* options = nullptr;
  const Sink* sink = nullptr;  // null: only the header is wanted
  const Item* expected = nullptr;
  std::int64_t offset = 0;
  std::size_t skip = 0;  // bytes that a server without ranges sends again
  bool begun = false;
  bool changed = false;
  std::exception_ptr thrown;  // of the sink

  long status() const {
    long code = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
    return code;
  }

  /// The header of the last answer, after all redirections; empty where the server does not say it.
  std::string header(const char* name) const {
    curl_header* found = nullptr;
    const auto answer = curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &found);
    return answer == CURLHE_OK ? found->value : "";
  }

  std::string etag() const {
    auto etag = header("ETag");
    return etag.empty() ? header("Last-Modified") : etag;
  }

  /// Bytes of the whole file: "bytes 0-0/1234" -> 1234; a whole answer says it by its own length.
  /// -1: not said.
  std::int64_t total() const {
    const bool part = status() == 206 || status() == 416;
    const auto range = header("Content-Range");
    const auto text = part ? range.substr(range.rfind('/') + 1) : header("Content-Length");
    std::int64_t number = -1;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }

  /// Whether this is the file that was looked at.
  bool is_expected() const {
    return total() == expected->size && (expected->etag.empty() || etag() == expected->etag);
  }
};

std::size_t take_body(char* bytes, std::size_t, std::size_t size, void* pointer) {
  auto& response = *static_cast<Response*>(pointer);
  const auto status = response.status();
  if (status != 200 && status != 206) return size;  // of an error's page
  if (response.sink == nullptr) return 0;           // enough: ends the transfer
  if (!std::exchange(response.begun, true)) {
    response.changed = !response.is_expected();
    if (status == 200) response.skip = static_cast<std::size_t>(response.offset);
  }
  if (response.changed) return 0;
  const auto skipped = std::min(response.skip, size);
  response.skip -= skipped;
  try {
    (*response.sink)({reinterpret_cast<const std::byte*>(bytes) + skipped, size - skipped});
  } catch (...) {
    response.thrown = std::current_exception();
    return 0;
  }
  return size;
}

/// Called several times a second, also while nothing arrives; not 0 ends the transfer.
int stops(void* response, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return is_stopped(*static_cast<const Response*>(response)->options) ? 1 : 0;
}

bool passing(CURLcode code) {
  constexpr std::array codes = {CURLE_COULDNT_CONNECT,
                                CURLE_COULDNT_RESOLVE_HOST,
                                CURLE_COULDNT_RESOLVE_PROXY,
                                CURLE_OPERATION_TIMEDOUT,
                                CURLE_PARTIAL_FILE,
                                CURLE_RECV_ERROR,
                                CURLE_SEND_ERROR,
                                CURLE_GOT_NOTHING,
                                CURLE_SSL_CONNECT_ERROR,
                                CURLE_HTTP2,
                                CURLE_HTTP2_STREAM};
  return std::ranges::find(codes, code) != codes.end();
}

bool passing(long status) {
  return status == 408 || status == 425 || status == 429 ||
         (status >= 500 && status != 501 && status != 505 && status != 507);
}

CURL* new_curl() {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  check(ready == CURLE_OK, "curl_global_init");
  auto* const curl = curl_easy_init();
  check(curl != nullptr, "curl_easy_init");
  return curl;
}

class HttpStore : public Store {
 public:
  using Store::Store;

  /// The first byte is asked for, not HEAD: signed links allow GET alone.
  std::optional<Item> stat(const Url& url) override {
    Response response{.curl = curl_.get(), .options = &options()};
    const auto code = perform(url, "0-0", response);
    const auto status = response.status();
    if (status == 404 || status == 410) return {};
    if (status != 416 && !(code == CURLE_WRITE_ERROR && status == 200))
      require_success(url, code, response);
    const auto total = response.total();
    if (total < 0) throw StoreError("{}: the server does not give the length of the file", url);
    return Item{"", total, response.etag()};
  }

  bool lists() const override { return false; }

  std::vector<Item> list(const Url& folder) override {
    throw StoreError("{} cannot be listed over HTTP", folder);
  }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    if (offset >= expected.size) return;
    Response response{.curl = curl_.get(),
                      .options = &options(),
                      .sink = &sink,
                      .expected = &expected,
                      .offset = offset};
    const auto code = perform(url, offset > 0 ? formatted("{}-", offset) : "", response);
    if (response.thrown) std::rethrow_exception(response.thrown);
    if (response.changed) throw Changed("{} has changed since dimred listed it", url);
    require_success(url, code, response);
  }

  void put(const std::vector<Put>& files) override { require_writable(files.front().url); }
  void remove(const std::vector<Url>& urls) override { require_writable(urls.front()); }

 private:
  CURLcode perform(const Url& url, const std::string& range, Response& response) {
    const auto address = identity(url);
    curl_easy_reset(curl_.get());
    error_[0] = 0;
    const auto set = [&](auto option, auto value) {
      check(curl_easy_setopt(curl_.get(), option, value) == CURLE_OK, "curl_easy_setopt");
    };
    set(CURLOPT_URL, address.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 10L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_OPTIONAL));
    set(CURLOPT_USERAGENT, "dimred");
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options().timeout * 1000));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, std::lround(std::ceil(options().timeout)));
    set(CURLOPT_ERRORBUFFER, error_);
    set(CURLOPT_WRITEFUNCTION, take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&response));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, stops);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&response));
    if (!url.user.empty()) {
      const auto colon = url.user.find(':');
      set(CURLOPT_USERNAME, percent_decoded(url.user.substr(0, colon)).c_str());
      if (colon != std::string::npos)
        set(CURLOPT_PASSWORD, percent_decoded(url.user.substr(colon + 1)).c_str());
    }
    if (!range.empty()) set(CURLOPT_RANGE, range.c_str());
    return curl_easy_perform(curl_.get());
  }

  void require_success(const Url& url, CURLcode code, const Response& response) const {
    const auto status = response.status();
    if (code == CURLE_ABORTED_BY_CALLBACK) throw StopRequested("{} was stopped", url);
    if (status == 401 || status == 403)
      throw Refused("cannot read {}: the credentials are refused (HTTP {})", url, status);
    const bool read = code == CURLE_OK || (code == CURLE_WRITE_ERROR && response.sink == nullptr);
    if (status < 300 && read) return;
    const bool refused = status >= 300;
    const auto reason = refused          ? formatted("HTTP {}", status)
                        : error_[0] != 0 ? std::string(error_)
                                         : curl_easy_strerror(code);
    if (refused ? passing(status) : passing(code)) throw Passing("cannot read {}: {}", url, reason);
    throw StoreError("cannot read {}: {}", url, reason);
  }

  std::unique_ptr<CURL, void (*)(CURL*)> curl_{new_curl(), curl_easy_cleanup};
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace

std::unique_ptr<Store> make_http_store(const StoreOptions& options) {
  return std::make_unique<HttpStore>(options);
}

}  // namespace dimred::stores
