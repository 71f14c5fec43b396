import {
  formatCmdInstruction,
  formatDockerfile,
  type GeneratedDockerfile,
  type RecipeOptions,
  USER,
} from "./generated-dockerfile.ts";
import { getFields, getText } from "./parsed-fields.ts";
import { readProcfileStart } from "./procfile.ts";
import { findRustBinary } from "./rust-binary.ts";
import type { SourceReader } from "./source-reader.ts";
import { findToolVersion, parseToml } from "./tool-version.ts";
import { undecidedSourceError } from "./undecided-source.ts";

const PORT = 8000;
/** The release of Debian on which both images are based, so that the program finds the libraries it was built with. */
const DEBIAN = "bookworm";
/** The first release of Rust whose image is based on that release of Debian. */
const FIRST_ON_DEBIAN = 70;

/** Creates the Dockerfile for Rust with Cargo. Throws `invalid_request` if the program to build is ambiguous. */
export async function createRustDockerfile(
  reader: SourceReader,
  options: RecipeOptions,
): Promise<GeneratedDockerfile> {
  const manifest = await reader.read("Cargo.toml");
  if (manifest === undefined)
    throw undecidedSourceError("there is no Cargo.toml", "run `cargo init`");
  const binary = await findRustBinary(reader, parseToml(manifest, "Cargo.toml"));
  const rust = await chooseRustVersion(reader);
  const lock = (await reader.read("Cargo.lock")) ?? "";
  const needsOpenssl =
    /^name = "openssl-sys"$/m.test(lock) || /^\s*(openssl|native-tls)\b/m.test(manifest);
  const isRocket = /^name = "rocket"$/m.test(lock) || /^\s*rocket\b/m.test(manifest);
  const description = `Rust ${rust.version}`;
  const decidingFiles = ["Cargo.toml", ...rust.from];
  const start = (await readProcfileStart(reader)) ?? startCommand(isRocket);
  const text = formatDockerfile(description, decidingFiles, [
    `FROM ${options.baseImage ?? rust.image} AS build`,
    "WORKDIR /src",
    "COPY . .",
    `RUN cargo build --release${lock === "" ? "" : " --locked"} --bin ${binary} && mkdir -p /out && cp target/release/${binary} /out/app && rm -rf target`,
    "",
    `FROM ${options.baseImage ?? `debian:${DEBIAN}-slim`}`,
    `RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates${needsOpenssl ? " libssl3" : ""} && rm -rf /var/lib/apt/lists/*`,
    "COPY --from=build /out/app /usr/local/bin/app",
    // Copies templates and pages, which the program reads from its working directory.
    `COPY --from=build --chown=${USER} /src /app`,
    "WORKDIR /app",
    `ENV PORT=${PORT}`,
    `EXPOSE ${PORT}`,
    `USER ${USER}`,
    formatCmdInstruction(start),
  ]);
  return { description, decidingFiles, port: PORT, text };
}

/** Rocket listens on loopback and reads variables of its own. */
function startCommand(isRocket: boolean) {
  const program = "/usr/local/bin/app";
  return isRocket
    ? ({
        type: "shell",
        line: `ROCKET_ADDRESS=0.0.0.0 ROCKET_PORT=$PORT exec ${program}`,
      } as const)
    : ({ type: "program", words: [program] } as const);
}

/**
 * Chooses the version that the source pins. `rust-version` in Cargo.toml is only a minimum, so it does not pin a
 * version.
 */
async function chooseRustVersion(
  reader: SourceReader,
): Promise<{ readonly version: string; readonly image: string; readonly from: readonly string[] }> {
  const toml = await reader.read("rust-toolchain.toml");
  const channel =
    toml === undefined
      ? undefined
      : getText(getFields(parseToml(toml, "rust-toolchain.toml"), "toolchain"), "channel");
  const pinned =
    channel === undefined
      ? await findToolVersion(reader, ["rust"], ["rust-toolchain"])
      : { version: channel, from: "rust-toolchain.toml" };
  const [version, minor] = /^1\.(\d+)(?:\.\d+)?/.exec(pinned?.version ?? "") ?? [];
  if (pinned === undefined || version === undefined)
    return { version: "1", image: `rust:1-${DEBIAN}`, from: [] };
  const isOnDebian = Number(minor) >= FIRST_ON_DEBIAN;
  const image = `rust:${version}${isOnDebian ? `-${DEBIAN}` : ""}`;
  return { version, image, from: [pinned.from] };
}
