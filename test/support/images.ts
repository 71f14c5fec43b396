import { createHash } from "node:crypto";
import {
  busyboxRoot,
  hasImage,
  importImage,
  nodeRoot,
  type RootFs,
} from "../../scripts/base-image.mjs";
import { engineRequest } from "../../scripts/engine.mjs";

/**
 * An image of a web server. These environment variables of the container configure it, and all are optional:
 *
 *   PORT=8080          port that it listens on; default 8080
 *   BODY=text          response to GET /; default: the image's version
 *   LISTEN_AFTER=1.5   seconds before it listens
 *   HEALTHY_AFTER=2    seconds until GET /healthz answers 200 instead of 404; `never`: it always answers 404
 *   EXIT_AFTER=3       seconds until the server exits with EXIT_CODE (default 1)
 *   LOG=text           line on standard output at the start; LOG_ERR: line on standard error
 *   LISTEN=address     address that it binds to; default: all addresses
 *
 * GET /env returns the environment. `rm /www/healthz` in the container makes it unhealthy.
 */
export const WEB = "berth.test/web:1";
/** A newer version of the image `WEB`. */
export const WEB_2 = "berth.test/web:2";
/**
 * An image of a Node.js web server that shuts down gracefully: it completes its requests before it exits. These
 * environment variables of the container configure the server:
 *
 *   BODY=text          response to GET /, and after 5000 ms to GET /slow?ms=5000
 *   PORT=8080          port that it listens on
 *   HEALTHY=never      GET /healthz answers 500
 *   EXIT_AFTER=300     milliseconds until the server exits with 1; 0: it exits before it listens
 *
 * The server sends BODY ten times a second to a WebSocket at /socket.
 */
export const NODE_WEB = "berth.test/node-web:1";
/** An image that writes a line to standard output and one to standard error, and exits with 3. */
export const EXITS = "berth.test/exits:1";
/** An image of busybox with a shell. Its command sleeps for 11 days. */
export const SHELL = "berth.test/shell:1";
/**
 * An image for the services of a stack. Its container answers GET /who with IDENTITY at PORT only after it has checked
 * what these environment variables describe; if a check fails, it exits with 1. Only PORT and IDENTITY are required:
 *
 *   NEEDS="db:5432=shop/db ..."   names at which other services answer, each with the IDENTITY that it must have
 *   VALUES="KIND=full ..."        environment variables, with their values
 *   FILES="/etc/rules=text ..."   files, with their contents
 *   KEEPS=/data/owner             file that this service wrote at an earlier start, or writes now
 *   READ_ONLY=/etc/rules          folder in which it must not be able to write
 *   HOST=name                     its host name
 */
export const MEMBER = "berth.test/member:1";
/** An image whose container ignores SIGTERM. */
export const STUBBORN = "berth.test/stubborn:1";
/** An image whose command does not exist: its container exits with 127 when it is started. */
export const BROKEN = "berth.test/broken:1";

const webScript = `#!/bin/sh
mkdir -p /www
[ -n "$LOG" ] && echo "$LOG"
[ -n "$LOG_ERR" ] && echo "$LOG_ERR" >&2
printf '%s\\n' "\${BODY:-$VERSION}" > /www/index.html
env > /www/env
rm -f /www/healthz
if [ "$HEALTHY_AFTER" != never ]; then
  if [ -n "$HEALTHY_AFTER" ]; then (sleep "$HEALTHY_AFTER"; echo ok > /www/healthz) &
  else echo ok > /www/healthz; fi
fi
[ -n "$LISTEN_AFTER" ] && sleep "$LISTEN_AFTER"
if [ -n "$EXIT_AFTER" ]; then
  httpd -f -p "\${LISTEN:+$LISTEN:}\${PORT:-8080}" -h /www &
  sleep "$EXIT_AFTER"
  echo "ending with \${EXIT_CODE:-1}" >&2
  exit "\${EXIT_CODE:-1}"
fi
echo "listening on \${PORT:-8080}"
exec httpd -f -p "\${LISTEN:+$LISTEN:}\${PORT:-8080}" -h /www
`;

const nodeWebScript = `
const { createHash } = require("node:crypto");
const { BODY = "node-web", PORT = "8080", HEALTHY, EXIT_AFTER } = process.env;
const server = require("node:http").createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  const after = Number(url.searchParams.get("ms") ?? "0");
  if (url.pathname === "/healthz" && HEALTHY === "never") response.statusCode = 500;
  setTimeout(() => response.end(BODY), after);
});
server.on("upgrade", (request, socket) => {
  const key = request.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  const accept = createHash("sha1").update(key).digest("base64");
  socket.write("HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: " + accept + "\\r\\n\\r\\n");
  const text = Buffer.from(BODY);
  const timer = setInterval(() => socket.write(Buffer.concat([Buffer.from([0x81, text.length]), text])), 100);
  socket.on("close", () => clearInterval(timer));
  socket.on("error", () => {});
});
if (EXIT_AFTER === "0") process.exit(1);
server.listen(Number(PORT), () => console.log("listening on " + PORT));
if (EXIT_AFTER) setTimeout(() => process.exit(1), Number(EXIT_AFTER));
process.on("SIGTERM", () => server.close(() => process.exit(0)));
`;

const memberScript = `#!/bin/sh
fail() { echo "$*" >&2; exit 1; }
for pair in $VALUES; do
  env | grep -qxF "$pair" || fail "the environment lacks $pair"
done
for pair in $FILES; do
  [ "$(cat "\${pair%%=*}")" = "\${pair#*=}" ] || fail "\${pair%%=*} does not contain \${pair#*=}"
done
if [ -n "$KEEPS" ]; then
  [ -f "$KEEPS" ] || echo "$IDENTITY" > "$KEEPS"
  [ "$(cat "$KEEPS")" = "$IDENTITY" ] || fail "$KEEPS is from $(cat "$KEEPS")"
fi
[ -z "$READ_ONLY" ] || ! touch "$READ_ONLY/written" 2>/dev/null || fail "it can write to $READ_ONLY"
[ -z "$HOST" ] || [ "$(hostname)" = "$HOST" ] || fail "the host name is $(hostname)"
for need in $NEEDS; do
  until answer=$(wget -q -O - "http://\${need%%=*}/who" 2>/dev/null); do sleep 0.1; done
  [ "$answer" = "\${need#*=}" ] || fail "\${need%%=*} is $answer"
done
mkdir -p /tmp/www
echo "$IDENTITY" > /tmp/www/who
exec httpd -f -p "$PORT" -h /tmp/www
`;

interface TestImage {
  readonly base?: "node";
  readonly files?: Readonly<Record<string, string>>;
  readonly changes: readonly string[];
}

const images: Readonly<Record<string, TestImage>> = {
  [WEB]: web("web:1"),
  [WEB_2]: web("web:2"),
  [NODE_WEB]: {
    base: "node",
    files: { "web.cjs": nodeWebScript },
    changes: [`CMD ["/bin/node", "/web.cjs"]`, "EXPOSE 8080", "WORKDIR /"],
  },
  [EXITS]: {
    changes: [`CMD ["/bin/sh", "-c", "echo starting; echo no configuration found >&2; exit 3"]`],
  },
  [SHELL]: { changes: [`CMD ["/bin/sleep", "1000000"]`] },
  [MEMBER]: {
    files: { "bin/member": memberScript },
    changes: [`CMD ["/bin/member"]`],
  },
  [STUBBORN]: {
    changes: [`CMD ["/bin/sh", "-c", "trap '' TERM; echo trapped; while :; do sleep 1; done"]`],
  },
  [BROKEN]: { changes: [`CMD ["/bin/does-not-exist"]`] },
};

function web(version: string): TestImage {
  return {
    files: { "bin/web": webScript },
    changes: [
      `CMD ["/bin/web"]`,
      "EXPOSE 8080",
      `ENV VERSION=${version}`,
      `LABEL org.opencontainers.image.title=web`,
    ],
  };
}

/**
 * Builds the test images that the engine does not have in their current form, from this machine's busybox or Node.js.
 */
export async function ensureTestImages(host: string): Promise<void> {
  await Promise.all(
    Object.entries(images).map(async ([reference, image]) => {
      // A second tag contains a hash of the definition. The image is built again when the hash changes.
      const form = createHash("sha256").update(JSON.stringify(image)).digest("hex").slice(0, 12);
      const marker = `${reference}-${form}`;
      if ((await hasImage(host, marker)) && (await hasImage(host, reference))) return;
      const fs = image.base === "node" ? nodeRoot() : rootFs();
      for (const [name, content] of Object.entries(image.files ?? {}))
        fs.file(name, content, 0o755);
      await importImage(host, reference, fs, image.changes);
      const tagged = await engineRequest(host, {
        method: "POST",
        path: `/images/${reference}/tag?repo=${encodeURIComponent(marker.split(":")[0] ?? "")}&tag=${marker.split(":")[1]}`,
      });
      if (tagged.status !== 201) throw new Error(`cannot tag ${marker}: ${tagged.text}`);
    }),
  );
}

function rootFs(): RootFs {
  const fs = busyboxRoot();
  if (!fs)
    throw new Error(
      "the tests make their images from busybox: apt-get install busybox-static (npm test does that on Debian as root)",
    );
  return fs;
}
