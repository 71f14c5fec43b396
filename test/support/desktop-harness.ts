import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CompanionProcess } from "./companion-process.ts";
import { ExampleApp, examplePath } from "./example-app.ts";
import { TestSessionBus } from "./test-session-bus.ts";

export const NOTES = "org.example.Notes";
export const MEMORY = "org.example.Memory";

const memoryServer = fileURLToPath(
  new URL("../../node_modules/@modelcontextprotocol/server-memory/dist/index.js", import.meta.url),
);

/**
 * A complete desktop: a private session bus, the real companion, the notes app, a published MCP server behind the
 * bridge, and an indexed folder.
 */
export class DesktopHarness implements AsyncDisposable {
  readonly bus: TestSessionBus;
  readonly companion: CompanionProcess;
  readonly #apps: ExampleApp[] = [];

  /** Starts the desktop; `flags` are the flags of the companion, as in CompanionProcess. */
  static async start(
    environment: Readonly<Record<string, string>> = {},
    flags?: readonly string[],
  ): Promise<DesktopHarness> {
    const bus = await TestSessionBus.start();
    const companion = await CompanionProcess.prepare({ bus, environment, ...(flags && { flags }) });
    const desktop = new DesktopHarness(bus, companion);
    try {
      await desktop.#setUp();
    } catch (error) {
      await desktop[Symbol.asyncDispose]();
      throw error;
    }
    return desktop;
  }

  private constructor(bus: TestSessionBus, companion: CompanionProcess) {
    this.bus = bus;
    this.companion = companion;
  }

  async #setUp(): Promise<void> {
    const { companion } = this;
    for (const file of ["notes-app/org.example.Notes.json", "mcp-bridge/org.example.Memory.json"])
      await copyFile(examplePath(file), join(companion.manifestsDir, file.split("/")[1] ?? ""));
    await mkdir(join(companion.home, "Papers"));
    await writeFile(
      join(companion.home, "Papers/heating.md"),
      "# The boiler\n\nIts pressure should stand at 1.5 bar. Top it up at the valve below the kitchen sink.\n",
    );
    await writeFile(
      companion.settingsFile,
      "index:\n  - { name: papers, path: ~/Papers, scope: home }\n",
    );
    await companion.start();
    const { environment } = companion;
    const runtimeDir = environment["XDG_RUNTIME_DIR"] ?? "";
    const started = await Promise.all([
      ExampleApp.start("notes-app/notes.mjs", { runtimeDir, environment }),
      ExampleApp.start("mcp-bridge/bridge.mjs", {
        runtimeDir,
        environment,
        args: [MEMORY, "--", process.execPath, memoryServer],
      }),
    ]);
    this.#apps.push(...started);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const app of this.#apps) await app[Symbol.asyncDispose]();
    await this.companion[Symbol.asyncDispose]();
    await this.bus[Symbol.asyncDispose]();
  }
}
