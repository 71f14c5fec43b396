import { chmodSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { LiveSettings } from "../../../../src/assistant/daemons/live-settings.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import { readCompanionFile } from "../../../../src/config/companion-settings-file.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = temporaryFolder("settings");
  file = join(folder, "companion.yaml");
});

function live(): LiveSettings {
  return new LiveSettings({
    file,
    homeDirectory: folder,
    settings: readCompanionFile(file),
    logger: silentLogger,
  });
}

it("live settings use a changed settings file at the next read, even if the file is new or was removed", () => {
  const settings = live();
  expect(settings.current().isPaused).toBe(false);
  writeFileSync(file, "paused: true\n");
  expect(settings.current().isPaused).toBe(true);
  rmSync(file);
  expect(settings.current().isPaused).toBe(false);
});

it("live settings keep their last valid values while the file is invalid", () => {
  writeFileSync(file, "paused: true\n");
  const settings = live();
  expect(settings.current().isPaused).toBe(true);
  writeFileSync(file, "paused: tru\n");
  expect(settings.current().isPaused).toBe(true);
  writeFileSync(file, "paused: false\n");
  expect(settings.current().isPaused).toBe(false);
});

it("live settings keep their last valid values while the file cannot be read", () => {
  writeFileSync(file, "paused: true\n");
  const settings = live();
  expect(settings.current().isPaused).toBe(true);
  rmSync(file);
  symlinkSync(file, file);
  expect(settings.current().isPaused).toBe(true);
  rmSync(file);
  writeFileSync(file, "paused: false\n");
  expect(settings.current().isPaused).toBe(false);
});

it("live settings grant nothing new at the moment when an editor has emptied the file", () => {
  writeFileSync(file, "paused: true\n");
  const settings = live();
  expect(settings.current().isPaused).toBe(true);
  writeFileSync(file, "");
  expect(settings.current().isPaused).toBe(true);
  writeFileSync(file, "{}\n");
  expect(settings.current().isPaused).toBe(false);
});

it("live settings keep their last valid values while other users can write the file", () => {
  writeFileSync(file, "paused: true\n");
  const settings = live();
  expect(settings.current().isPaused).toBe(true);
  writeFileSync(file, "paused: false\n");
  chmodSync(file, 0o646);
  expect(settings.current().isPaused).toBe(true);
  chmodSync(file, 0o644);
  expect(settings.current().isPaused).toBe(false);
});
