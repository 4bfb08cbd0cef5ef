"""Keyword spotting on synthetic sound, trained by a small trainer with callbacks."""

import dataclasses
import json
import pathlib
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


# -------------------------------------------------------------------------- the trainer

class Callback:
    def on_fit_start(self, trainer): ...
    def on_step_end(self, trainer, loss): ...
    def on_validation_end(self, trainer, metrics): ...
    def on_fit_end(self, trainer): ...


class Module(nn.Module):
    def training_step(self, batch):
        raise NotImplementedError

    def validation_step(self, batch):
        raise NotImplementedError

    def configure_optimizers(self):
        raise NotImplementedError


@dataclasses.dataclass
class Trainer:
    max_epochs: int = 1
    gradient_clip: float = 1.0
    validate_every: int = 200
    callbacks: tuple = ()

    def call(self, name, *args):
        for callback in self.callbacks:
            getattr(callback, name)(self, *args)

    def fit(self, module, train_loader, validation_loader):
        self.module = module
        self.optimizer, self.scheduler = module.configure_optimizers()
        self.global_step = 0
        self.call('on_fit_start')
        for self.epoch in range(self.max_epochs):
            for batch in train_loader:
                module.train()
                self.optimizer.zero_grad()
                loss = module.training_step(batch)
                loss.backward()
                nn.utils.clip_grad_norm_(module.parameters(), self.gradient_clip)
                self.optimizer.step()
                self.scheduler.step()
                self.global_step += 1
                self.call('on_step_end', loss)
                if self.global_step % self.validate_every == 0:
                    self.validate(validation_loader)
        self.call('on_fit_end')

    def validate(self, loader):
        self.module.eval()
        results = []
        with torch.inference_mode():
            for batch in loader:
                results.append(self.module.validation_step(batch))
        metrics = {k: torch.stack([r[k] for r in results]).mean().item() for k in results[0]}
        self.call('on_validation_end', metrics)


# ------------------------------------------------------------------------ its callbacks

class LossLogger(Callback):
    def __init__(self, folder, every=50):
        self.file = pathlib.Path(folder, 'loss.jsonl')
        self.every = every

    def on_fit_start(self, trainer):
        self.lines = []

    def on_step_end(self, trainer, loss):
        if trainer.global_step % self.every == 0:
            self.lines.append({'step': trainer.global_step, 'loss': loss.item()})

    def on_validation_end(self, trainer, metrics):
        self.file.write_text('\n'.join(map(json.dumps, self.lines)))
        print(trainer.global_step, metrics, flush=True)


class BestCheckpoint(Callback):
    def __init__(self, folder):
        self.path = pathlib.Path(folder, 'best.pt')
        self.best = 0.0

    def on_validation_end(self, trainer, metrics):
        if metrics['accuracy'] > self.best:
            self.best = metrics['accuracy']
            torch.save(trainer.module.state_dict(), self.path)


# ---------------------------------------------------------------------------- the model

class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.widen = nn.Conv1d(channels, 2 * channels, 5, padding=2)
        self.act = nn.GELU()
        self.narrow = nn.Conv1d(2 * channels, channels, 1)

    def forward(self, x):
        return x + self.narrow(self.act(self.widen(self.norm(x))))


class Keywords(Module):
    def __init__(self, channels=48, blocks=2, words=8):
        super().__init__()
        self.stem = nn.Conv1d(1, channels, 16, stride=8, padding=4)
        self.blocks = nn.Sequential(*[Residual(channels) for _ in range(blocks)])
        self.head = nn.Linear(channels, words)
        self.loss = nn.CrossEntropyLoss()

    def forward(self, sound):
        return self.head(self.blocks(self.stem(sound)).mean(2))

    def training_step(self, batch):
        sound, word = batch
        return self.loss(self(sound), word)

    def validation_step(self, batch):
        sound, word = batch
        scores = self(sound)
        return {'loss': self.loss(scores, word), 'accuracy': (scores.argmax(1) == word).float().mean()}

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=2e-3, fused=True)
        return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=100_000)


def sounds(count, length=1024):
    time = torch.arange(length) / length
    word = torch.randint(8, (count,))
    pitch = 20 + 12 * word.float() + torch.randn(count)
    wave = torch.sin(2 * torch.pi * pitch[:, None] * time + 6 * torch.rand(count, 1))
    return TensorDataset((wave + 0.5 * torch.randn(count, length)).unsqueeze(1), word)


class WholeBatches(torch.utils.data.Sampler):
    """Lists of indices, so that a data set of tensors is indexed once a batch."""

    def __init__(self, size, batch):
        self.size, self.batch = size, batch

    def __iter__(self):
        yield from torch.randperm(self.size).split(self.batch)

    def __len__(self):
        return -(-self.size // self.batch)


def loader(data, batch):
    return DataLoader(data, sampler=WholeBatches(len(data), batch), batch_size=None)


if __name__ == '__main__':
    torch.manual_seed(7)
    folder = tempfile.mkdtemp(prefix='keywords-')
    trainer = Trainer(max_epochs=30, callbacks=(LossLogger(folder), BestCheckpoint(folder)))
    trainer.fit(Keywords(), loader(sounds(8000), 64), loader(sounds(256), 128))
