from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sync_scheduler', '0003_run_parked'),
    ]

    operations = [
        migrations.AddField(
            model_name='gate',
            name='starts',
            field=models.JSONField(null=True),
        ),
    ]
