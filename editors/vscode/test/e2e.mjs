// Drives a real VS Code (code-server) in a real browser: install, open, see, fix, save; type, hover, ask; runs verified on a
// phantom T4; a notebook, a shell script, several folders; another target; Pythons without t4lint, and none at all.
//
//   CODE_SERVER=.../out/node/entry.js PYTHON=.../bin/python node test/e2e.mjs [FOLDER_FOR_SCREENSHOTS]
//
// PYTHON is an interpreter with t4lint[lsp] and torch. Exits with 0 when every step was seen.

import { spawn, execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = path.dirname(fileURLToPath(import.meta.url));
const vsix = path.join(here, "..", "t4lint.vsix");
const server = process.env.CODE_SERVER;
const python = process.env.PYTHON ?? "python3";
const browserPath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const shots = process.argv[2];
const PATIENCE = Number(process.env.PATIENCE ?? 90_000); // milliseconds
const RUN = 3 * PATIENCE; // for a run of a script
const SIZE = { width: 1400, height: 850 };

const TRAIN_HF = `import argparse

from datasets import load_dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--tf32", action="store_true")
options = parser.parse_args()

model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="float32")
config = SFTConfig("out", fp16=True, per_device_train_batch_size=options.batch, max_length=512, tf32=options.tf32)
trainer = SFTTrainer(model, config, train_dataset=load_dataset("stanfordnlp/imdb", split="train"))
trainer.train()
`;
const LAUNCH = `#!/bin/bash
# A quick run on a g4dn.xlarge.
torchrun train_hf.py --batch 4 \\
  --tf32
`;
const SCRIPT = `import torch
from torch.utils.data import DataLoader, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(64, 10).to(device)
optimizer = torch.optim.AdamW(model.parameters())
data = TensorDataset(torch.randn(512, 64), torch.randint(10, (512,)))
loader = DataLoader(data, batch_size=32, pin_memory=False)

for x, y in loader:
    x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
`;

/** A program whose findings get a verdict of each kind (examples/verify_me.py of the repository). */
const EXAMPLE = path.join(here, "verify_me.py");

const work = mkdtempSync(path.join(tmpdir(), "t4lint-e2e-"));
const project = path.join(work, "project");
const second = path.join(work, "second"); // a folder with a target of its own
const bare = path.join(work, "bare"); // an environment without t4lint
const port = 20_000 + (process.pid % 10_000);
const settingsFile = path.join(work, "user", "User", "settings.json");
const common = ["--extensions-dir", path.join(work, "extensions"), "--user-data-dir", path.join(work, "user")];

function configure(interpreter) {
  const settings = {
    "t4lint.interpreter": interpreter,
    "workbench.startupEditor": "none",
    "telemetry.telemetryLevel": "off",
    "files.autoSave": "off",
    "editor.minimap.enabled": false,
    "window.commandCenter": false,
    "security.workspace.trust.enabled": false,
  };
  writeFileSync(settingsFile, JSON.stringify(settings));
}

function prepare() {
  mkdirSync(path.join(work, "user", "User"), { recursive: true });
  mkdirSync(project);
  writeFileSync(path.join(project, "train.py"), SCRIPT);
  const [head, loop] = SCRIPT.split("\nfor ");
  const cell = (source) => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source });
  const cells = [cell(head.split(/(?<=\n)/)), cell(`for ${loop}`.split(/(?<=\n)/))];
  const metadata = { language_info: { name: "python" } };
  writeFileSync(path.join(project, "lesson.ipynb"), JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }));
  copyFileSync(EXAMPLE, path.join(project, "verify_me.py"));
  writeFileSync(path.join(project, "train_hf.py"), TRAIN_HF);
  writeFileSync(path.join(project, "run.sh"), LAUNCH);
  mkdirSync(second);
  writeFileSync(path.join(second, "other.py"), SCRIPT);
  writeFileSync(path.join(second, "t4lint.toml"), 'target = "l4"\n');
  const folders = [{ path: project }, { path: second }];
  writeFileSync(path.join(work, "both.code-workspace"), JSON.stringify({ folders }));
  withoutT4lint();
  configure(python);
  pythonExtension();
  execFileSync(process.execPath, [server, ...common, "--install-extension", vsix], { stdio: "inherit" });
}

/** What t4lint uses of the Python extension, which cannot be had here: an interpreter that was chosen. */
function pythonExtension() {
  const folder = path.join(work, "ms-python");
  const chosen = JSON.stringify(path.join(bare, "bin", "python"));
  const manifest = { name: "python", publisher: "ms-python", version: "0.0.1", engines: { vscode: "^1.90.0" }, main: "main.js" };
  const main = `const vscode = require("vscode");
exports.activate = () => ({ environments: {
  getActiveEnvironmentPath: () => ({ path: ${chosen} }),
  resolveEnvironment: async ({ path }) => ({ executable: { uri: vscode.Uri.file(path) } }),
} });`;
  const identity = '<Identity Language="en-US" Id="python" Version="0.0.1" Publisher="ms-python"/>';
  const files = {
    "extension/package.json": JSON.stringify(manifest),
    "extension/main.js": main,
    "extension.vsixmanifest": `<?xml version="1.0"?><PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011"><Metadata>${identity}<DisplayName>python</DisplayName></Metadata><Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation><Assets><Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/></Assets></PackageManifest>`,
    "[Content_Types].xml": '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension=".json" ContentType="application/json"/><Default Extension=".js" ContentType="application/javascript"/><Default Extension=".vsixmanifest" ContentType="text/xml"/></Types>',
  };
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), text);
  }
  const packed = `${folder}.vsix`;
  execFileSync(python, ["-c", "import shutil, sys; shutil.move(shutil.make_archive(*sys.argv[1:4]), sys.argv[4])", folder, "zip", folder, packed]);
  execFileSync(process.execPath, [server, ...common, "--install-extension", packed], { stdio: "inherit" });
}

/** An environment that has what PYTHON has but t4lint, and a wheel that is all that pip can see. */
function withoutT4lint() {
  const run = (...args) => execFileSync(python, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  run("-m", "venv", bare);
  const source = process.env.T4LINT_SOURCE;
  run("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", path.join(work, "wheels"), source);
  const packages = path.join(work, "packages");
  mkdirSync(packages);
  const places = JSON.parse(run("-c", "import json, sys; print(json.dumps([p for p in sys.path if p.endswith('-packages')]))"));
  for (const place of places) {
    for (const name of readdirSync(place)) {
      if (!/t4lint|\.pth$|^pip|^setuptools/i.test(name) && !existsSync(path.join(packages, name))) {
        symlinkSync(path.join(place, name), path.join(packages, name));
      }
    }
  }
  const own = execFileSync(path.join(bare, "bin", "python"), ["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], {
    encoding: "utf8",
  });
  writeFileSync(path.join(own.trim(), "packages.pth"), `${packages}\n`);
}

function start() {
  const env = { ...process.env, PIP_NO_INDEX: "1", PIP_FIND_LINKS: path.join(work, "wheels") };
  const flags = ["--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check"];
  return spawn(process.execPath, [server, ...common, ...flags, "--disable-workspace-trust", project], { stdio: "ignore", env });
}

async function reachable() {
  for (const started = Date.now(); Date.now() - started < PATIENCE; ) {
    try {
      await fetch(`http://127.0.0.1:${port}/healthz`);
      return;
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
  }
  throw new Error("code-server did not start");
}

async function shot(page, name) {
  if (shots) {
    mkdirSync(shots, { recursive: true });
    await page.screenshot({ path: path.join(shots, `${name}.png`) });
  }
}

async function command(page, title) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input").fill(`>${title}`);
  await page.locator(".quick-input-list .monaco-list-row").filter({ hasText: title }).first().click();
}

async function open(page, name) {
  await page.locator(".explorer-folders-view .monaco-list-row").filter({ hasText: name }).dblclick();
}

/** Wait for what is not in the browser. */
async function until(seen, otherwise) {
  for (const started = Date.now(); !seen(); ) {
    if (Date.now() - started > PATIENCE) {
      throw new Error(otherwise);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** What the extension said, for who has to find out why a step failed. */
function printLogs() {
  for (const text of logged()) {
    console.error(`--- log\n${text.slice(-8000)}`);
  }
}

function logged() {
  const logs = path.join(work, "user", "logs");
  const names = readdirSync(logs, { recursive: true }).filter((name) => /t4lint\.log$|\d-t4lint.*\.log$/.test(name));
  return names.map((name) => readFileSync(path.join(logs, name), "utf8"));
}

function step(text) {
  console.log(`ok  ${text}`);
}

async function findingInScript(page) {
  await open(page, "train.py");
  await page.locator(".squiggly-warning").first().waitFor({ timeout: PATIENCE });
  step("a squiggle in train.py");
  await command(page, "View: Toggle Problems");
  const row = page.locator(".markers-panel .monaco-list-row").filter({ hasText: "pin-memory-disabled" });
  await row.waitFor({ timeout: PATIENCE });
  step("the finding in the Problems panel");
  await shot(page, "problems");
}

async function quickFix(page) {
  const action = page.locator(".action-widget .monaco-list-row").filter({ hasText: "Pin the batches" });
  await page.locator(".view-line span").filter({ hasText: /^False$/ }).first().dblclick();
  for (let tries = 0; tries < 5 && !(await action.isVisible()); tries += 1) {
    await page.keyboard.press("Control+.");
    await action.waitFor({ timeout: PATIENCE / 5 }).catch(() => undefined);
  }
  await shot(page, "quick-fix");
  await page.keyboard.press("Enter"); // the preferred action has the focus
  await page.locator(".markers-panel .monaco-list-row").filter({ hasText: "pin-memory-disabled" }).waitFor({
    state: "detached",
    timeout: PATIENCE,
  });
  await page.keyboard.press("Control+s");
  const saved = () => readFileSync(path.join(project, "train.py"), "utf8");
  await until(() => saved().includes("pin_memory=True"), "the fix was not saved");
  if (saved() !== SCRIPT.replace("pin_memory=False", "pin_memory=True")) {
    throw new Error(`the fix changed more than the argument:\n${saved()}`);
  }
  step("the quick fix, in the saved file, and nothing else changed");
}

/** The rows of the Problems panel about a rule in the file in front. */
function problems(page, rule) {
  return page.locator(".markers-panel .monaco-list-row").filter({ hasText: rule });
}

/** Findings have to stay where they are while a person types. */
async function typing(page) {
  await page.locator(".view-line span").filter({ hasText: /^optimizer.zero_grad$|zero_grad/ }).first().click();
  await page.keyboard.press("End");
  await page.evaluate(() => {
    window.t4lintSeen = { looks: 0, without: 0 };
    window.t4lintTimer = setInterval(() => {
      window.t4lintSeen.looks += 1;
      window.t4lintSeen.without += document.querySelector(".squiggly-info") === null ? 1 : 0;
    }, 20);
  });
  await page.keyboard.type("  # the gradients of the last step are taken away", { delay: 60 });
  await page.waitForTimeout(1500);
  const seen = await page.evaluate(() => (clearInterval(window.t4lintTimer), window.t4lintSeen));
  if (seen.looks < 10 || seen.without > 0) {
    throw new Error(`while a person types, findings are away in ${seen.without} of ${seen.looks} looks`);
  }
  step("a squiggle that stays while a person types");
  await command(page, "File: Revert File");
}

async function launchScript(page) {
  await open(page, "train_hf.py");
  await problems(page, "training-arguments-tf32").first().waitFor({ timeout: PATIENCE });
  step("a finding in run.sh, while only the script that it starts is open");
  await open(page, "run.sh");
  await page.locator(".squiggly-error").first().waitFor({ timeout: PATIENCE });
  step("a squiggle in run.sh");
  await shot(page, "shell");
}

async function hover(page) {
  await open(page, "train_hf.py");
  const lens = page.locator(".codelens-decoration").filter({ hasText: "GiB on the T4" });
  await lens.first().waitFor({ timeout: PATIENCE });
  step(`a lens: ${(await lens.first().innerText()).trim()}`);
  const line = page.locator(".view-line").filter({ hasText: "SFTConfig(" });
  await line.locator("span span").filter({ hasText: /^per_device_train_batch_size$/ }).first().hover();
  const text = page.locator(".monaco-hover-content").filter({ hasText: "--batch 4" }).first();
  await text.waitFor({ timeout: PATIENCE });
  step("the value of a setting on hover");
  await page.waitForTimeout(500); // it fades in
  await shot(page, "hover");
  await page.keyboard.press("Escape");
}

async function pages(page) {
  await command(page, "t4lint: Explain a rule");
  await page.locator(".quick-input-widget input").fill("pin-memory-disabled");
  await page.locator(".quick-input-list .monaco-list-row").filter({ hasText: "pin-memory-disabled" }).first().click();
  await page.locator(".tab").filter({ hasText: "pin-memory-disabled.md" }).waitFor({ timeout: PATIENCE });
  const text = page.frameLocator("iframe.webview.ready").first().frameLocator("iframe#active-frame").locator("h1");
  await text.filter({ hasText: "pin-memory-disabled" }).waitFor({ timeout: PATIENCE });
  step("the page of a rule");
  await shot(page, "page");
  await command(page, "View: Close All Editors");
  await open(page, "train_hf.py");
  await command(page, "t4lint: What fills the card (fit)");
  await page.locator(".tab").filter({ hasText: "fit.txt" }).waitFor({ timeout: PATIENCE });
  await page.locator(".view-line").filter({ hasText: "GiB" }).first().waitFor({ timeout: PATIENCE });
  step("what fills the card");
  await shot(page, "fit");
  await command(page, "View: Close All Editors");
}

async function wholeWorkspace(page) {
  await open(page, "verify_me.py");
  await page.locator(".squiggly-warning").first().waitFor({ timeout: PATIENCE });
  await command(page, "t4lint: Check the workspace");
  const told = page.locator(".notification-list-item").filter({ hasText: "t4lint looked at" });
  await told.waitFor({ timeout: PATIENCE });
  await command(page, "Notifications: Clear All Notifications");
  await page.locator("input[placeholder^=Filter]").fill("verify_me.py"); // else not all rows are drawn
  await page.waitForTimeout(1000);
  const rows = await problems(page, "bf16-guard-always-true").count();
  if (rows !== 1) {
    throw new Error(`one finding is shown ${rows} times`);
  }
  step("the whole workspace, and each finding once");
  await command(page, "t4lint: Restart the server");
  await command(page, "t4lint: Restart the server");
  await page.waitForTimeout(4000);
  await problems(page, "bf16-guard-always-true").first().waitFor({ timeout: PATIENCE });
  if ((await problems(page, "bf16-guard-always-true").count()) !== 1) {
    throw new Error("a server that was started again says everything twice");
  }
  step("the server, started again");
  await command(page, "t4lint: Fix all safe findings in this file");
  await problems(page, "pin-memory-disabled").first().waitFor({ state: "detached", timeout: PATIENCE });
  step("all safe fixes of a file");
  await page.locator("input[placeholder^=Filter]").fill("");
  await command(page, "File: Revert File");
}

async function verified(page) {
  await page.setViewportSize({ width: 2100, height: 1000 });
  await command(page, "View: Toggle Panel Visibility");
  await open(page, "verify_me.py");
  await page.locator(".squiggly-warning").first().waitFor({ timeout: PATIENCE });
  await command(page, "View: Toggle Primary Side Bar Visibility");
  await command(page, "t4lint: Verify this script on a phantom T4");
  const dialog = page.locator(".monaco-dialog-box");
  await dialog.filter({ hasText: "t4lint verify --device phantom -- python verify_me.py" }).waitFor({ timeout: PATIENCE });
  await dialog.locator("button, .monaco-button").filter({ hasText: "Run it" }).click();
  await page.locator(".tab").filter({ hasText: "t4lint: verdicts" }).waitFor({ timeout: RUN });
  const outer = page.frameLocator("iframe.webview.ready").first();
  const table = outer.frameLocator("iframe#active-frame").locator("table");
  await table.waitFor({ timeout: PATIENCE });
  const rows = (await table.innerText()).split("\n").map((row) => row.split("\t")[0]);
  for (const verdict of ["confirmed", "refuted", "not exercised"]) {
    if (!rows.includes(verdict)) {
      throw new Error(`no verdict "${verdict}" among ${rows}`);
    }
  }
  step(`verdicts of a run on a phantom T4: ${await table.locator("tr").nth(1).innerText()}`.replace(/\s+/g, " "));
  await page.waitForFunction(besideALine, "confirmed on a phantom", { timeout: PATIENCE });
  step("a verdict beside the line that it is about");
  await shot(page, "verdicts");
  await page.setViewportSize(SIZE);
  await command(page, "View: Toggle Primary Side Bar Visibility");
}

/** Runs in the browser: texts beside lines are in style sheets only. */
function besideALine(text) {
  const spans = [...document.querySelectorAll(".view-line span")];
  return spans.some((span) => getComputedStyle(span, "::after").content.includes(text));
}

// A notebook has a web view of its own for what its cells print, which may come first.
async function linkInAView(page, text) {
  for (const started = Date.now(); Date.now() - started < PATIENCE; ) {
    for (const frame of page.frames()) {
      if (await frame.locator("a").filter({ hasText: text }).first().isVisible().catch(() => false)) {
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`no link "${text}"`);
}

async function target(page) {
  await open(page, "train.py");
  await page.locator(".statusbar-item").filter({ hasText: /^\s*t4\s*$/ }).click();
  await page.locator(".quick-input-widget input").fill("l4");
  await page.locator(".quick-input-list .monaco-list-row").filter({ hasText: /^l4/ }).first().click();
  await page.locator(".statusbar-item").filter({ hasText: /^\s*l4\s*$/ }).waitFor({ timeout: PATIENCE });
  await command(page, "View: Toggle Problems");
  const row = page.locator(".markers-panel .monaco-list-row").filter({ hasText: "to the L4" });
  await row.first().waitFor({ timeout: PATIENCE });
  await page.locator(".codelens-decoration").filter({ hasText: "phantom L4" }).first().waitFor({ timeout: PATIENCE });
  step("another target from the status bar, and what is said for it");
}

function useInterpreter(interpreter) {
  set("t4lint.interpreter", interpreter);
}

function set(name, value) {
  const workspaceSettings = path.join(project, ".vscode", "settings.json"); // the target picker has made it
  const settings = JSON.parse(readFileSync(workspaceSettings, "utf8"));
  writeFileSync(workspaceSettings, JSON.stringify({ ...settings, [name]: value }));
}

/** Settings that change while the editor runs; nothing is installed before a person says so. */
async function missing(page) {
  useInterpreter("${workspaceFolder}/no/python");
  await page.locator(".notification-list-item").filter({ hasText: "t4lint cannot start" }).waitFor({ timeout: PATIENCE });
  await page.locator(".statusbar-item").filter({ hasText: "no Python found" }).waitFor({ timeout: PATIENCE });
  step("an interpreter that is not there: said, and where to mend it");
  await command(page, "Notifications: Clear All Notifications");
  useInterpreter(bare);
  const offer = page.locator(".notification-list-item").filter({ hasText: "t4lint is not installed in" });
  await offer.waitFor({ timeout: PATIENCE });
  const button = offer.locator(".monaco-button").filter({ hasText: /^Install$/ });
  await button.waitFor({ timeout: PATIENCE });
  await page.locator(".statusbar-item").filter({ hasText: "not installed" }).waitFor({ timeout: PATIENCE });
  if (readdirSync(path.join(bare, "bin")).some((name) => name.startsWith("t4lint"))) {
    throw new Error("t4lint was installed without a word");
  }
  step("a Python without t4lint: an offer to install it");
  await shot(page, "install");
  await button.click();
  await page.locator(".statusbar-item").filter({ hasText: /^\s*l4\s*$/ }).waitFor({ timeout: RUN });
  step("t4lint, installed at a click");
  await shot(page, "installed");
}

async function chosen(page) {
  const starts = () => logged().join("").match(/t4lint \S+ in .*/g) ?? [];
  const before = starts().length;
  useInterpreter("");
  const seen = () => starts().length > before && starts().at(-1).endsWith(path.join(bare, "bin", "python"));
  await until(seen, "the interpreter that was chosen in the Python extension is not used");
  await page.locator(".statusbar-item").filter({ hasText: /^\s*l4\s*$/ }).waitFor({ timeout: PATIENCE });
  step("the interpreter that was chosen in the Python extension");
}

async function severalFolders(page) {
  await page.goto(`http://127.0.0.1:${port}/?workspace=${encodeURIComponent(path.join(work, "both.code-workspace"))}`);
  const other = page.locator(".explorer-folders-view .monaco-list-row").filter({ hasText: "other.py" });
  if (!(await other.isVisible({ timeout: 5000 }).catch(() => false))) {
    await page.locator(".explorer-folders-view .monaco-list-row").filter({ hasText: "second" }).first().click({ timeout: PATIENCE });
  }
  await other.dblclick({ timeout: PATIENCE });
  await page.locator(".squiggly-warning, .squiggly-info").first().waitFor({ timeout: PATIENCE });
  await page.locator(".statusbar-item").filter({ hasText: /^\s*l4\s*$/ }).waitFor({ timeout: PATIENCE });
  step("a folder of several, checked for the target of its own settings");
  await shot(page, "folders");
}

async function switchedOff(page) {
  // The settings of one folder of several say nothing for the window.
  await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(project)}`);
  await open(page, "verify_me.py");
  await page.locator(".squiggly-warning").first().waitFor({ timeout: PATIENCE });
  set("t4lint.enable", false);
  await page.locator(".squiggly-warning, .squiggly-info").first().waitFor({ state: "detached", timeout: PATIENCE });
  await page.locator(".statusbar-item").filter({ hasText: /^\s*l4\s*$/ }).waitFor({ state: "detached", timeout: PATIENCE });
  step("switched off: nothing left");
}

async function notebook(page) {
  await command(page, "t4lint: Clear verdicts");
  await command(page, "View: Close All Editors");
  await open(page, "lesson.ipynb");
  await page.locator(".notebook-editor .squiggly-warning").first().waitFor({ timeout: PATIENCE });
  step("a squiggle in a cell of a notebook");
  await shot(page, "notebook");
  await command(page, "t4lint: Verify this script on a phantom T4");
  await page.locator(".monaco-dialog-box").locator("button, .monaco-button").filter({ hasText: "Run it" }).click();
  await page.locator(".tab").filter({ hasText: "t4lint: verdicts" }).waitFor({ timeout: RUN });
  await linkInAView(page, "lesson.ipynb:cell 1:");
  await page.waitForFunction(besideALine, "confirmed on a phantom", { timeout: PATIENCE });
  step("verdicts about a notebook, beside the line of its cell");
  await shot(page, "notebook-verdicts");
  await command(page, "t4lint: Clear verdicts");
}

// T4LINT_E2E_STEPS=notebook,target runs these alone.
const wanted = process.env.T4LINT_E2E_STEPS?.split(",");
const STEPS = [
  findingInScript, typing, quickFix, launchScript, hover, pages, wholeWorkspace, verified, notebook, target, missing, chosen,
  severalFolders, switchedOff,
].filter((each) => wanted?.includes(each.name) ?? true);

async function main() {
  prepare();
  const child = start();
  let browser;
  try {
    await reachable();
    browser = await chromium.launch({
      executablePath: browserPath,
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync"],
    });
    const page = await browser.newPage({ viewport: SIZE });
    page.setDefaultTimeout(PATIENCE);
    await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(project)}`);
    try {
      for (const each of STEPS) {
        await each(page);
      }
    } catch (error) {
      await shot(page, "failed");
      printLogs();
      throw error;
    }
    console.log("done");
  } finally {
    await browser?.close();
    child.kill();
    rmSync(work, { recursive: true, force: true });
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
