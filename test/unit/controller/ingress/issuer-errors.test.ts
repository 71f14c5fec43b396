import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { IssuerErrors } from "../../../../src/controller/ingress/issuer-errors.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = temporaryFolder("issuer");
  file = join(folder, "caddy.log");
});

function entry(identifier: string, error: string): string {
  const issuer = "acme-v02.api.letsencrypt.org-directory";
  const msg = "could not get certificate from issuer";
  return JSON.stringify({ level: "error", logger: "tls.obtain", msg, identifier, issuer, error });
}

test("the last answer of the certificate authority is found in Caddy's log for each domain name, and other lines are ignored", async () => {
  const errors = new IssuerErrors(file);
  expect(await errors.find("a.example.org")).toBeUndefined();
  writeFileSync(
    file,
    [
      entry("a.example.org", "HTTP 429 urn:ietf:params:acme:error:rateLimited"),
      entry("b.example.org", "no such host"),
      JSON.stringify({ level: "info", msg: "served", identifier: "a.example.org" }),
      "not JSON, could not get certificate from issuer",
      entry("a.example.org", "HTTP 400 urn:ietf:params:acme:error:dns - NXDOMAIN\nlooking up A"),
      "",
    ].join("\n"),
  );
  expect(await errors.find("a.example.org")).toBe(
    "acme-v02.api.letsencrypt.org: HTTP 400 urn:ietf:params:acme:error:dns - NXDOMAIN looking up A",
  );
  expect(await errors.find("b.example.org")).toMatch(/no such host$/);
  expect(await errors.find("c.example.org")).toBeUndefined();
});

test("an answer of the certificate authority stays known after Caddy has rotated its log, and shows no path of the machine", async () => {
  const errors = new IssuerErrors(file);
  writeFileSync(file, entry("a.example.org", `open /srv/berth/key: denied ${"x".repeat(1_000)}`));
  const before = await errors.find("a.example.org");
  expect(before).toContain("open (path): denied");
  expect(before?.length).toBeLessThan(400);
  writeFileSync(file, "");
  expect(await errors.find("a.example.org")).toBe(before);
});
