import { fakeToolAppsHarness } from "../../support/fake-tool-apps.ts";
import { toolAppsContract } from "./tool-apps.ts";

toolAppsContract("the fake", async () => fakeToolAppsHarness());
