import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { parseCgroupApp } from "../../../../src/assistant/bus/identity/cgroup-app.ts";
import { ConnectionTimes } from "../../../../src/assistant/bus/identity/connection-times.ts";
import { identifyProcessApp } from "../../../../src/assistant/bus/identity/identify-caller.ts";
import {
  HiddenFactError,
  ProcessFiles,
} from "../../../../src/assistant/bus/identity/process-files.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

const slice = "0::/user.slice/user-1000.slice/user@1000.service/app.slice";

describe("systemd units of apps", () => {
  test.each([
    ["app-gnome-org.gnome.Terminal-4711.scope", "org.gnome.Terminal"],
    ["app-org.kde.konsole-4711.scope", "org.kde.konsole"],
    ["app-org.kde.konsole@8a1f.service", "org.kde.konsole"],
    ["app-gnome-org.gnome.Maps@autostart.service", "org.gnome.Maps"],
    ["app-org.kde.konsole.service", "org.kde.konsole"],
    [String.raw`app-firefox\x2desr-99.scope`, "firefox-esr"],
    [String.raw`app-KDE-caf\xc3\xa9-1.scope`, "café"],
  ])("the unit %s belongs to the app %s", (unit, id) => {
    expect(parseCgroupApp(`${slice}/${unit}\n`)).toEqual({ id, kind: "unit" });
  });

  test.each([
    "dbus.service",
    "gnome-terminal-server.service",
    "app.slice",
    "app-.scope",
    "app-1.scope",
    "",
  ])("%j does not belong to an app", (unit) => {
    expect(parseCgroupApp(`${slice}/${unit}\n`)).toBeUndefined();
  });

  test("are found by the innermost unit of the process, in systemd's own control group hierarchy if there are several hierarchies", () => {
    const inner = `${slice}/app-a.b.C-1.scope/app-d.e.F-2.scope`;
    expect(parseCgroupApp(inner)?.id).toBe("d.e.F");
    const several = "12:cpu:/app-x.y.Z-1.scope\n1:name=systemd:/user.slice/app-a.b.C-1.scope\n";
    expect(parseCgroupApp(several)?.id).toBe("a.b.C");
    expect(parseCgroupApp("12:cpu:/app-x.y.Z-1.scope\n")).toBeUndefined();
  });

  test("that snapd has created belong to snaps", () => {
    const unit = "snap.firefox_dev.firefox-0a1b.scope";
    expect(parseCgroupApp(`${slice}/${unit}`)).toEqual({ id: "firefox_dev", kind: "snap" });
  });
});

describe("the identity of a process", () => {
  let root: string;
  let files: ProcessFiles;
  const dir = () => path.join(root, "42");

  beforeEach(async () => {
    root = temporaryFolder("proc");
    files = new ProcessFiles(root);
    await mkdir(path.join(root, "42", "root"), { recursive: true });
    await mkdir(path.join(root, "42", "attr"));
    await writeFile(path.join(dir(), "cgroup"), `${slice}/app-flatpak-org.evil.App-1.scope\n`);
  });

  test("of a flatpak is that of its sandbox, even if a systemd unit has started the flatpak", async () => {
    const info = "[Application]\nname=org.mozilla.firefox\nruntime=x\n\n[Instance]\nname=other\n";
    await writeFile(path.join(dir(), "root", ".flatpak-info"), info);
    const app = { id: "org.mozilla.firefox", kind: "flatpak", hasNetwork: false };
    expect(await identifyProcessApp(files, 42, "snap.a.b (enforce)")).toEqual(app);
  });

  test("has the kind flatpak even if the file .flatpak-info contains no app name", async () => {
    await writeFile(path.join(dir(), "root", ".flatpak-info"), "[Runtime]\nname=org.x.Platform\n");
    expect((await identifyProcessApp(files, 42, ""))?.kind).toBe("flatpak");
  });

  test.each([
    ["[Context]\nshared=network;ipc;\nsockets=x11;\n", true],
    ["[Context]\nshared=ipc;\n[Other]\nshared=network;\n", false],
    ["[Context]\nsockets=network;\n", false],
    ["", false],
  ])(
    "says whether the sandbox of a flatpak has access to the network: %j",
    async (context, hasNetwork) => {
      const info = `[Application]\nname=org.x.Y\n\n${context}`;
      await writeFile(path.join(dir(), "root", ".flatpak-info"), info);
      expect(await identifyProcessApp(files, 42, "")).toEqual({
        id: "org.x.Y",
        kind: "flatpak",
        hasNetwork,
      });
    },
  );

  test("has the kind flatpak even if .flatpak-info is a symbolic link, which is not followed", async () => {
    await writeFile(path.join(root, "forged"), "[Application]\nname=org.other.App\n");
    await symlink(path.join(root, "forged"), path.join(dir(), "root", ".flatpak-info"));
    const app = { id: "org.evil.App", kind: "flatpak" };
    expect(await identifyProcessApp(files, 42, "snap.a.b (enforce)")).toEqual(app);
    await writeFile(path.join(dir(), "cgroup"), `${slice}/app-org.kde.konsole-1.scope\n`);
    expect(await identifyProcessApp(files, 42, "")).toEqual({ id: "flatpak", kind: "flatpak" });
  });

  test("has the kind flatpak even if .flatpak-info is a folder", async () => {
    await mkdir(path.join(dir(), "root", ".flatpak-info"));
    expect((await identifyProcessApp(files, 42, ""))?.kind).toBe("flatpak");
  });

  test("of a snap is recognised by its security label from the bus or from the process", async () => {
    expect(await identifyProcessApp(files, 42, "snap.code.code (enforce)")).toEqual({
      id: "code",
      kind: "snap",
    });
    await writeFile(path.join(dir(), "attr", "current"), "snap.vlc.vlc (complain)\n");
    expect(await identifyProcessApp(files, 42, "unconfined")).toEqual({ id: "vlc", kind: "snap" });
  });

  describe("that hides its root directory", () => {
    class Hidden extends ProcessFiles {
      override async flatpakInfo(): ReturnType<ProcessFiles["flatpakInfo"]> {
        return { kind: "hidden" };
      }
    }
    const denied = { busName: "org.freedesktop.DBus.Error.AccessDenied" };

    test.each([`${slice}/app-org.kde.konsole-1.scope\n`, `${slice}/dbus.service\n`, "0::/\n", ""])(
      "is unknown in the control group %j, so the process is refused",
      async (cgroup) => {
        await writeFile(path.join(dir(), "cgroup"), cgroup);
        const identity = identifyProcessApp(new Hidden(root), 42, "unconfined");
        await expect(identity).rejects.toMatchObject(denied);
        await expect(identity).rejects.toThrow("cannot be identified");
      },
    );

    test("is that of the unit in which flatpak has started the process, unless a security label names a snap", async () => {
      const hidden = new Hidden(root);
      const app = { id: "org.evil.App", kind: "flatpak" };
      expect(await identifyProcessApp(hidden, 42, "unconfined")).toEqual(app);
      expect(await identifyProcessApp(hidden, 42, "snap.code.code (enforce)")).toEqual({
        id: "code",
        kind: "snap",
      });
    });
  });

  test.each(["cgroup", "securityLabel"] as const)(
    "is unknown if the system does not show the %s, so the process is refused",
    async (fact) => {
      class Unreadable extends ProcessFiles {}
      Unreadable.prototype[fact] = async () => {
        throw new HiddenFactError("EACCES");
      };
      await expect(identifyProcessApp(new Unreadable(root), 42, "")).rejects.toMatchObject({
        busName: "org.freedesktop.DBus.Error.AccessDenied",
      });
    },
  );

  test("is not guessed if a fact cannot be read for another reason", async () => {
    await rm(path.join(dir(), "cgroup"));
    await mkdir(path.join(dir(), "cgroup"));
    await expect(identifyProcessApp(files, 42, "")).rejects.toMatchObject({ code: "EISDIR" });
  });

  test("includes the start time, whatever the program name contains", async () => {
    const fields = Array.from({ length: 40 }, (_, index) => String(index + 3)).join(" ");
    await writeFile(path.join(dir(), "stat"), `42 (a) S 1 (b) ${fields.replace(/^3/, "S")}\n`);
    expect(await files.startTime(42)).toBe("22");
    await writeFile(path.join(dir(), "stat"), `42 (a) ${fields.replace(/^3/, "Z")}\n`);
    expect(await files.startTime(42)).toBeUndefined();
    expect(await files.startTime(43)).toBeUndefined();
  });

  test("is rejected if the process started after its connection was made", async () => {
    let nowMs = 50_000;
    const times = new ConnectionTimes(() => nowMs);
    const startedAtMs = async (ms: number) => times.isTooYoung(":1.7", String(ms / 10), files);
    expect(await startedAtMs(60_000)).toBe(false); // The recording of start times has not begun yet.
    times.startRecording();
    expect(await startedAtMs(50_000)).toBe(false);
    expect(await startedAtMs(50_100)).toBe(true);
    nowMs = 70_000;
    times.recordConnect(":1.7");
    expect(await startedAtMs(70_000)).toBe(false);
    expect(await startedAtMs(70_100)).toBe(true);
    times.recordDisconnect(":1.7");
    expect(await startedAtMs(60_000)).toBe(true);
  });

  test("ignores the start time if it does not fit the uptime of the machine", async () => {
    const times = new ConnectionTimes(() => 1_000);
    times.startRecording();
    const own = new ProcessFiles();
    expect(await times.isTooYoung(":1.7", "99999999999", own)).toBe(false);
  });

  test("is read from the real files of this machine", async () => {
    const machine = new ProcessFiles();
    expect(await machine.startTime(process.pid)).toMatch(/^\d+$/);
    expect(await machine.flatpakInfo(process.pid)).toEqual({ kind: "none" });
  });
});
