import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { ConfigError } from "../../../src/config/config-error.ts";
import { readSignInConfig, signInDefaults } from "../../../src/config/sign-in-config.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";

let folder: string;
let file: string;

beforeEach(() => {
  folder = temporaryFolder("sign-in");
  file = join(folder, "oauth.json");
});

function read(text: string) {
  writeFileSync(file, text);
  return readSignInConfig(file);
}

describe("the sign-in URLs of the providers", () => {
  it("are the providers' public URLs by default", () => {
    expect(readSignInConfig(undefined)).toEqual(signInDefaults);
    expect(readSignInConfig("")).toEqual(signInDefaults);
    expect(read("{}")).toEqual(signInDefaults);
    expect(signInDefaults.openrouter.authorizeUrl).toBe("https://openrouter.ai/auth");
    expect(signInDefaults.huggingface.issuer).toBe("https://huggingface.co");
  });

  it("are replaced, key by key, by the URLs in the configuration file", () => {
    const config = read(
      JSON.stringify({
        openrouter: { exchangeUrl: "http://127.0.0.1:8000/keys/" },
        huggingface: { issuer: "https://id.example.org/realm", clientId: "abc" },
      }),
    );
    expect(config).toEqual({
      openrouter: {
        ...signInDefaults.openrouter,
        exchangeUrl: "http://127.0.0.1:8000/keys",
      },
      huggingface: {
        ...signInDefaults.huggingface,
        issuer: "https://id.example.org/realm",
        clientId: "abc",
      },
    });
  });

  it.each([
    ['{"openrouter":{"authorizeURL":"https://a"}}', 'did you mean "authorizeUrl"'],
    ['{"open_router":{}}', 'unknown key "open_router"; did you mean "openrouter"'],
    ['{"openrouter":[]}', "openrouter must be an object"],
    ["[]", "the file must contain an object"],
    ["", "the file must contain an object"],
    ["{", "the file is not JSON"],
    ['{"huggingface":{},"huggingface":{}}', "occurs twice"],
    ['{"huggingface":{"issuer":"http://example.org"}}', "huggingface.issuer must be an https"],
    ['{"huggingface":{"issuer":"http://127.0.0.1.evil.org"}}', "huggingface.issuer must be"],
    ['{"huggingface":{"issuer":"https://u:p@example.org"}}', "huggingface.issuer must be"],
    ['{"huggingface":{"issuer":"https://example.org/?a"}}', "huggingface.issuer must be"],
    ['{"openrouter":{"baseUrl":"https://a:99999"}}', "openrouter.baseUrl is not a valid address"],
    ['{"huggingface":{"clientId":"a b"}}', "huggingface.clientId must be a client id"],
    ['{"huggingface":{"clientId":7}}', "huggingface.clientId must be a client id"],
  ])("are not read from the invalid file %s", (text, message) => {
    expect(() => read(text)).toThrow(ConfigError);
    expect(() => read(text)).toThrow(message);
    expect(() => read(text)).toThrow(file);
  });

  it("are not read from a missing configuration file, or from one that is larger than 64 KiB", () => {
    expect(() => readSignInConfig(join(folder, "none.json"))).toThrow("none.json cannot be read");
    expect(() => read(`{"openrouter":${" ".repeat(70_000)}{}}`)).toThrow("larger than 64 KiB");
  });
});
