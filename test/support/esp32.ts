import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import mqtt, { type MqttClient } from 'mqtt';
import { program } from './programs.ts';

/*
 * Runs a sketch for an ESP32 as a program of this machine. Stand-ins for the libraries of the board have what the sketch uses;
 * the one for PubSubClient writes its calls to standard output as lines, and this file carries them out with an MQTT client.
 */

/** A C++ compiler, or null if none is installed. */
export const cxx = program('g++');

const headers: Readonly<Record<string, string>> = {
  'Arduino.h': String.raw`#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <unistd.h>
enum { OUTPUT = 3 };
struct SerialPort {
  void begin(unsigned long) {}
  void println(const char *text) { fprintf(stderr, "%s\n", text); }
};
static SerialPort Serial;
static inline unsigned long millis() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
static inline void delay(unsigned long ms) { usleep(ms * 1000); }
static inline void pinMode(uint8_t, uint8_t) {}
static inline void analogWrite(uint8_t, int value) {
  printf("led %d\n", value);
  fflush(stdout);
}
static inline void configTime(long, int, const char *) {}
void setup();
void loop();
int main() {
  setup();
  for (;;) loop();
}
`,
  'WiFi.h': `#pragma once
enum { WL_CONNECTED = 3 };
struct Station {
  void begin(const char *, const char *) {}
  int status() { return WL_CONNECTED; }
};
static Station WiFi;
class WiFiClient {};
`,
  'WiFiClientSecure.h': `#pragma once
#include <WiFi.h>
class WiFiClientSecure : public WiFiClient {
 public:
  void setCACert(const char *) {}
};
`,
  'esp_random.h': `#pragma once
#include <cstddef>
#include <sys/random.h>
static inline void esp_fill_random(void *out, size_t size) {
  if (getrandom(out, size, 0) != (ssize_t)size) abort();
}
`,
  'PubSubClient.h': String.raw`#pragma once
#include <WiFi.h>
#include <poll.h>
#include <string>
class PubSubClient {
 public:
  typedef void (*Callback)(char *, uint8_t *, unsigned int);
  explicit PubSubClient(WiFiClient &) {}
  void setServer(const char *, uint16_t) {}
  bool setBufferSize(uint16_t) { return true; }
  void setCallback(Callback callback) { callback_ = callback; }
  bool connected() { return connected_; }
  bool connect(const char *id, const char *user, const char *password) {
    printf("connect %s %s %s\n", id, user, password);
    fflush(stdout);
    // Lines of earlier connections are still to be read.
    std::string number = std::to_string(++connection_), answer;
    while (answer != "connected " + number && answer != "closed " + number) readLine(answer, -1);
    return connected_ = answer != "closed " + number;
  }
  void disconnect() {
    connected_ = false;
    printf("disconnect\n");
    fflush(stdout);
  }
  bool subscribe(const char *topic, int) {
    printf("subscribe %s\n", topic);
    fflush(stdout);
    return true;
  }
  bool publish(const char *topic, const char *payload) {
    printf("publish %s %s\n", topic, payload);
    fflush(stdout);
    return true;
  }
  void loop() {
    std::string line;
    if (!readLine(line, 20)) return;
    if (line == "closed " + std::to_string(connection_)) connected_ = false;
    if (line.rfind("message ", 0) != 0) return;
    size_t space = line.find(' ', 8);
    std::string topic = line.substr(8, space - 8), payload = line.substr(space + 1);
    callback_(&topic[0], (uint8_t *)&payload[0], payload.size());
  }

 private:
  Callback callback_ = nullptr;
  int connection_ = 0;
  bool connected_ = false;
  std::string input_;
  bool readLine(std::string &line, int timeoutMs) {
    size_t end = input_.find('\n');
    if (end == std::string::npos) {
      struct pollfd stdin_ = {0, POLLIN, 0};
      if (poll(&stdin_, 1, timeoutMs) < 1) return false;
      char bytes[4096];
      ssize_t size = read(0, bytes, sizeof bytes);
      if (size <= 0) exit(0);
      input_.append(bytes, size);
      end = input_.find('\n');
      if (end == std::string::npos) return false;
    }
    line = input_.substr(0, end);
    input_.erase(0, end + 1);
    return true;
  }
};
`,
  'mbedtls/md.h': `#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
struct mbedtls_md_info_t {};
enum mbedtls_md_type_t { MBEDTLS_MD_SHA256 };
static inline const mbedtls_md_info_t *mbedtls_md_info_from_type(mbedtls_md_type_t) {
  static const mbedtls_md_info_t info = {};
  return &info;
}
static inline uint32_t turned(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }
// FIPS 180-4, with the constants computed as the fractional parts of the roots of the first primes.
static inline int mbedtls_md(const mbedtls_md_info_t *, const unsigned char *bytes, size_t size, unsigned char *out) {
  static uint32_t k[64], first[8];
  if (k[0] == 0) {
    int count = 0;
    for (uint32_t n = 2; count < 64; n++) {
      bool isPrime = true;
      for (uint32_t d = 2; d * d <= n; d++) isPrime = isPrime && n % d != 0;
      if (!isPrime) continue;
      unsigned __int128 cube = (unsigned __int128)n << 96, square = (unsigned __int128)n << 64;
      uint64_t third = 0, half = 0;
      for (int bit = 36; bit >= 0; bit--) {
        unsigned __int128 a = third | 1ULL << bit, b = half | 1ULL << bit;
        if (a * a * a <= cube) third = a;
        if (b * b <= square) half = b;
      }
      k[count] = third;
      if (count < 8) first[count] = half;
      count++;
    }
  }
  uint32_t h[8];
  memcpy(h, first, sizeof h);
  std::string text((const char *)bytes, size);
  text += (char)0x80;
  while (text.size() % 64 != 56) text += (char)0;
  for (int shift = 56; shift >= 0; shift -= 8) text += (char)((uint64_t)size * 8 >> shift);
  for (size_t block = 0; block < text.size(); block += 64) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++) {
      const unsigned char *b = (const unsigned char *)&text[block + 4 * i];
      w[i] = (uint32_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
      uint32_t a = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
      uint32_t b = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
      w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
      uint32_t a = turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25);
      uint32_t one = s[7] + a + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
      uint32_t b = turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22);
      uint32_t two = b + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      memmove(s + 1, s, 7 * sizeof *s);
      s[4] += one;
      s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
  }
  for (int i = 0; i < 32; i++) out[i] = h[i / 4] >> (24 - 8 * (i % 4));
  return 0;
}
// RFC 2104, for keys of up to 64 bytes.
static inline int mbedtls_md_hmac(const mbedtls_md_info_t *info, const unsigned char *key, size_t keySize,
                                  const unsigned char *bytes, size_t size, unsigned char *out) {
  std::string inner(64, 0x36), outer(64, 0x5c);
  for (size_t i = 0; i < keySize; i++) inner[i] ^= key[i], outer[i] ^= key[i];
  inner.append((const char *)bytes, size);
  mbedtls_md(info, (const unsigned char *)inner.data(), inner.size(), out);
  outer.append((const char *)out, 32);
  return mbedtls_md(info, (const unsigned char *)outer.data(), outer.size(), out);
}
`,
};

/**
 * Compiles a sketch in a folder, with all warnings as errors. Returns the path of the program, or only checks the sketch
 * with `checkOnly`. Throws with the compiler's messages.
 */
export function compileSketch(
  folder: string,
  sketch: string,
  { checkOnly = false }: { checkOnly?: boolean } = {},
): string {
  for (const [name, text] of Object.entries(headers)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  writeFileSync(join(folder, 'light.ino'), sketch);
  const output = checkOnly ? ['-fsyntax-only'] : ['-o', 'light'];
  const flags = ['-std=gnu++17', '-Wall', '-Wextra', '-Werror', '-Wno-unused-function', '-I.', '-include', 'Arduino.h'];
  const { status, stderr } = spawnSync(cxx ?? 'g++', [...flags, ...output, '-x', 'c++', 'light.ino'], {
    ...{ cwd: folder, encoding: 'utf8' },
  });
  if (status !== 0) throw new Error(stderr);
  return join(folder, 'light');
}

export interface RunningSketch {
  /** Values that were written to the pin of the light. */
  led: readonly number[];
  /** Closes its connection, so that it opens the next one. */
  dropConnection(): void;
  stop(): Promise<void>;
}

/** Runs a compiled sketch with its connections to a broker. */
export function runSketch(path: string, brokerUrl: string): RunningSketch {
  const child: ChildProcess = spawn(path, { stdio: ['pipe', 'pipe', 'inherit'] });
  const led: number[] = [];
  let client: MqttClient | null = null;
  /** The program counts them too. */
  let connections = 0;
  const write = (line: string): void => void child.stdin?.write(`${line}\n`);
  const connect = ([clientId = '', username = '', password = '']: string[]): void => {
    const opened = mqtt.connect(brokerUrl, { clientId, username, password, clean: true, reconnectPeriod: 0 });
    const number = ++connections;
    client = opened;
    opened.once('connect', () => write(`connected ${number}`));
    // Followed by the close of the connection.
    opened.on('error', () => {});
    opened.on('message', (topic, payload) => write(`message ${topic} ${payload}`));
    opened.on('close', () => write(`closed ${number}`));
  };
  if (child.stdout === null) throw new Error('the sketch has no standard output');
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [verb, ...rest] = line.split(' ');
    if (verb === 'connect') connect(rest);
    else if (verb === 'subscribe') client?.subscribe(`${rest[0]}`, { qos: 1 });
    else if (verb === 'publish') client?.publish(`${rest[0]}`, rest.slice(1).join(' '));
    else if (verb === 'led') led.push(Number(rest[0]));
    else if (verb === 'disconnect') client?.end(true);
  });
  // Writing to a program that has ended.
  child.stdin?.on('error', () => {});
  return {
    led,
    dropConnection: () => void client?.end(true),
    async stop() {
      const ended = new Promise((resolve) => child.once('close', resolve));
      child.kill('SIGKILL');
      client?.end(true);
      await ended;
    },
  };
}
