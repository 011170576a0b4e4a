// SPDX-License-Identifier: MIT
// Child processes by posix_spawn; their output through pipes.
#include "perf/host/process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fla::perf::host {
namespace {

constexpr int kPollMs = 50;
constexpr double kGraceS = 2;  // between asking a program to end and killing it

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A file descriptor that closes itself.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Fd& operator=(Fd&& other) noexcept {
    close();
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) {
      ::close(fd_);
      fd_ = -1;
    }
  }

 private:
  int fd_ = -1;
};

/// One output of the child: a pipe that is read into a text or a file.
struct Stream {
  Fd read_end;
  Fd write_end;
  Fd file;  // not open: `text`
  std::string text;
  int error = 0;  // of writing the file
};

Status open_stream(const std::string& path, Stream* stream) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return {Code::kIo, fmt::format("cannot make a pipe: {}", std::strerror(errno))};
  }
  stream->read_end = Fd(ends[0]);
  stream->write_end = Fd(ends[1]);
  ::fcntl(stream->read_end.get(), F_SETFL, O_NONBLOCK);
  if (!path.empty()) {
    stream->file =
        Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
    if (!stream->file.open()) {
      return {Code::kIo, fmt::format("cannot write '{}': {}", path, std::strerror(errno))};
    }
  }
  return {};
}

void keep(std::string_view bytes, Stream* stream) {
  if (!stream->file.open()) {
    stream->text += bytes;
    return;
  }
  while (!bytes.empty() && stream->error == 0) {
    const ssize_t written = ::write(stream->file.get(), bytes.data(), bytes.size());
    if (written > 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      stream->error = errno;
    }
  }
}

/// Reads what is there; closes the stream at its end.
void drain(Stream* stream) {
  std::array<char, 65536> buffer;
  while (stream->read_end.open()) {
    const ssize_t got = ::read(stream->read_end.get(), buffer.data(), buffer.size());
    if (got > 0) {
      keep({buffer.data(), static_cast<size_t>(got)}, stream);
    } else if (got == 0) {
      stream->read_end.close();
    } else if (errno != EINTR) {
      return;
    }
  }
}

/// "NAME=value" lines of our environment with the command's changes.
std::vector<std::string> child_environment(const Command& command) {
  Environment variables = read_environment();
  for (const auto& [name, value] : command.env) {
    if (value) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
  }
  std::vector<std::string> lines;
  for (const auto& [name, value] : variables) {
    lines.push_back(fmt::format("{}={}", name, value));
  }
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>* words) {
  std::vector<char*> result;
  for (std::string& word : *words) {
    result.push_back(word.data());
  }
  result.push_back(nullptr);
  return result;
}

/// Default signal handling and no blocked signals in a process group of its own.
void set_attributes(posix_spawnattr_t* attributes) {
  sigset_t defaults;
  sigset_t none;
  sigfillset(&defaults);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(attributes, &defaults);
  posix_spawnattr_setsigmask(attributes, &none);
  posix_spawnattr_setpgroup(attributes, 0);
  posix_spawnattr_setflags(
      attributes,
      static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP));
}

Result<pid_t> spawn(const Command& command, const std::array<Stream, 2>& streams) {
  std::vector<std::string> argv = command.argv;
  std::vector<std::string> env = child_environment(command);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  set_attributes(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, streams[0].write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(
      &actions, streams[streams[1].write_end.open() ? 1 : 0].write_end.get(), STDERR_FILENO);
  if (!command.cwd.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, command.cwd.c_str());
  }
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv[0].c_str(), &actions, &attributes,
                                 pointers(&argv).data(), pointers(&env).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    const std::string where = command.cwd.empty() ? "" : fmt::format(" in '{}'", command.cwd);
    return Status(Code::kIo,
                  fmt::format("cannot start '{}'{}: {}", argv[0], where, std::strerror(error)));
  }
  return pid;
}

/// Sends the signals that a time limit or a stop calls for: the first asks, the last kills.
class Ending {
 public:
  Ending(const Command& command, pid_t pid) : command_(command), pid_(pid), start_(now_s()) {}

  void look(Finished* finished) {
    const double elapsed = now_s() - start_;
    if (command_.waiting && elapsed >= next_report_) {
      command_.waiting(elapsed);
      next_report_ += 1;
    }
    if (asked_) {
      if (elapsed > kill_at_) {
        ::kill(-pid_, SIGKILL);
      }
    } else if (command_.stop && command_.stop()) {
      finished->stopped = true;
      ask(SIGINT, elapsed);
    } else if (command_.timeout_s && elapsed > *command_.timeout_s) {
      finished->timed_out = true;
      ask(SIGTERM, elapsed);
    }
  }
  double elapsed_s() const { return now_s() - start_; }

 private:
  void ask(int signal, double elapsed) {
    ::kill(-pid_, signal);
    asked_ = true;
    kill_at_ = elapsed + kGraceS;
  }

  const Command& command_;
  pid_t pid_;
  double start_;
  double next_report_ = 1;
  bool asked_ = false;
  double kill_at_ = 0;
};

/// Waits for the streams to end and the child to be gone. A grandchild that holds a stream open
/// does not keep us: once the child is gone, what is there is read and that is all.
Finished wait_for(const Command& command, pid_t pid, std::array<Stream, 2>* streams) {
  Finished finished;
  Ending ending(command, pid);
  int status = 0;
  pid_t gone = 0;
  while (gone == 0) {
    std::array<pollfd, 2> waits{};
    for (size_t i = 0; i < waits.size(); ++i) {
      waits[i] = {(*streams)[i].read_end.get(), POLLIN, 0};  // a negative fd is ignored
    }
    const bool closed = waits[0].fd < 0 && waits[1].fd < 0;
    ::poll(waits.data(), waits.size(), closed ? 1 : kPollMs);
    for (Stream& stream : *streams) {
      drain(&stream);
    }
    gone = ::waitpid(pid, &status, WNOHANG);
    if (gone < 0 && errno == EINTR) {
      gone = 0;
    }
    ending.look(&finished);
  }
  finished.wall_s = ending.elapsed_s();
  for (Stream& stream : *streams) {
    drain(&stream);
  }
  finished.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  finished.out = std::move((*streams)[0].text);
  finished.err = std::move((*streams)[1].text);
  return finished;
}

bool plain_word(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
  return !word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos;
}

}  // namespace

Environment read_environment() {
  Environment result;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string_view text = *line;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      result.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return result;
}

std::optional<std::string> find_program(const std::string& name, const Environment& environment) {
  if (name.find('/') != std::string::npos) {
    return ::access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  }
  const auto path = environment.find("PATH");
  std::string_view rest = path == environment.end() ? std::string_view() : path->second;
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    std::string candidate = fmt::format("{}/{}", rest.substr(0, colon), name);
    if (colon > 0 && ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  return std::nullopt;
}

Result<Finished> run(const Command& command) {
  if (command.argv.empty() || command.argv[0].empty()) {
    return Status(Code::kInvalidArgument, "a command needs a program name");
  }
  std::array<Stream, 2> streams;
  if (Status status = open_stream(command.out_file, &streams[0]); !status.ok()) {
    return status;
  }
  const bool joined = !command.err_file.empty() && command.err_file == command.out_file;
  if (!joined) {
    if (Status status = open_stream(command.err_file, &streams[1]); !status.ok()) {
      return status;
    }
  }
  const Result<pid_t> pid = spawn(command, streams);
  if (!pid.ok()) {
    return pid.status();
  }
  for (Stream& stream : streams) {
    stream.write_end.close();
  }
  Finished finished = wait_for(command, pid.value(), &streams);
  for (size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].error != 0) {
      return Status(Code::kIo, fmt::format("cannot write '{}': {}",
                                           i == 0 ? command.out_file : command.err_file,
                                           std::strerror(streams[i].error)));
    }
  }
  return finished;
}

std::string shell_line(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    line += line.empty() ? "" : " ";
    if (plain_word(word)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) {
      line += c == '\'' ? "'\\''" : std::string(1, c);
    }
    line += '\'';
  }
  return line;
}

Result<std::vector<std::string>> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < line.size();
    const bool in_double = quote == '"';
    if (escapes && (!in_double || line[i + 1] == '"' || line[i + 1] == '\\')) {
      word = word.value_or("") + line[++i];
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
      word = word.value_or("");
    } else if (quote == 0 && std::strchr(" \t\n", c) != nullptr && c != 0) {
      if (word) {
        words.push_back(std::move(*word));
        word.reset();
      }
    } else {
      word = word.value_or("") + c;
    }
  }
  if (quote != 0) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the quote {} is not closed in: {}", quote, line));
  }
  if (word) {
    words.push_back(std::move(*word));
  }
  return words;
}

}  // namespace fla::perf::host
